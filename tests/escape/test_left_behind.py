"""What a module leaves in its private folder is gone with the session, however it was made to stay."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from escape.one_tool import call, folder_of, open_session
from paddock.selftest import LEVELS

pytestmark = pytest.mark.usefixtures("warm_starts")

_LITTER = """
    import os

    async def act(input):
        home = os.environ["HOME"]
        os.chdir(home)
        for _ in range(1200):  # beyond what a path may have, and what a walk may call itself
            os.mkdir("deeper")
            os.chdir("deeper")
        os.chdir(home)
        os.makedirs("locked/inside")
        open("locked/inside/file", "w").close()
        os.mkdir("sealed", 0)
        os.mkfifo("pipe")
        os.symlink("/", "root")
        return os.listdir(home)
"""
_HANG = """
    import os, time

    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    time.sleep(3600)

    async def act(input):
        return "never"
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Make a folder that is removed even if what is in it is too deep for whoever tidies up after tests."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-litter-"))
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=False)


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_private_folder_is_removed_whatever_was_made_in_it(
    level: str, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    tool = {"module": "tool-litter", "source": folder_of(tmp_path, "litter", _LITTER)}
    async with open_session(level, workspace, [tool]) as session:
        left = await call(session, "litter")
    assert {"deeper", "locked", "sealed", "pipe", "root"} <= set(left.output)
    assert os.listdir(temporary) == []


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_module_that_hangs_on_import_is_ended_with_its_children(level: str, tmp_path: Path) -> None:
    tool = {
        "module": "tool-hang",
        "source": folder_of(tmp_path, "hang", _HANG),
        "limits": {"start_max": "700ms"},
    }
    async with open_session(level, tmp_path, [tool]) as session:
        (status,) = [module for module in session.modules if module.kind == "tool"]
    assert not status.is_mounted
    assert [report.limit.name for report in status.exit_reports if report.limit] == ["start_max"]
