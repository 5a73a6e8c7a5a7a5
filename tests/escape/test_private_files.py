"""The number of files in a private folder of its own is bounded: a file of no bytes takes memory of the kernel too."""

from __future__ import annotations

from pathlib import Path

import pytest

from escape.one_tool import call, folder_of, open_session

_MAKER = """
    import os

    async def act(input):
        for number in range(input["files"]):
            try:
                os.close(os.open(os.path.join(os.environ["HOME"], str(number)), os.O_CREAT | os.O_WRONLY))
            except OSError as error:
                return f"{os.strerror(error.errno)} after {number}"
        return "all"
"""
_FILES = 65_536  # as many as a folder of its own holds at `ns`
_MOST = 400_000
_BOUNDS = {"ns": "No space left on device after ", "bwrap": "memory_max"}


@pytest.mark.costly
@pytest.mark.parametrize("level", _BOUNDS)
async def test_a_module_makes_no_files_without_end(level: str, tmp_path: Path) -> None:
    tool = {
        "module": "tool-maker",
        "source": folder_of(tmp_path, "maker", _MAKER),
        "limits": {"memory_max": "160M"},
    }
    (tmp_path / "work").mkdir()
    async with open_session(level, tmp_path / "work", [tool]) as session:
        assert (await call(session, "maker", files=1000)).output == "all"
        result = await call(session, "maker", files=_MOST)
    said = str(result.output if result.success else result.error)
    assert _BOUNDS[level] in said
    if level == "ns":
        assert int(said.rpartition(" ")[2]) < _FILES
