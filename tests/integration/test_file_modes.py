"""The rights of files that modules make in granted folders: those of the user's own files there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.command_line import paddock, require_level
from integration.conftest import WriteModule
from integration.probe import tool_code
from paddock_sandbox.profile import IsolationLevel

_MAKER = """
    import subprocess
    os.chdir("granted")
    os.makedirs("made/deep")
    open("made/file", "w").close()
    subprocess.run(["sh", "-c", "echo > made/by_shell"], check=True)
    os.close(os.open("made/secret", os.O_CREAT | os.O_WRONLY, 0o600))
    return ToolResult(output=oct(os.stat(os.environ["HOME"]).st_mode & 0o777))
"""


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize(
    ("level", "mask"),
    [
        *(("ns", 0o027), ("landlock", 0o002)),
        pytest.param("ns", 0o002, marks=pytest.mark.exhaustive),
        pytest.param("landlock", 0o027, marks=pytest.mark.exhaustive),
    ],
)
def test_files_in_granted_folders_have_the_users_umask(
    level: IsolationLevel, mask: int, write_module: WriteModule, tmp_path: Path
) -> None:
    require_level(level)
    source = write_module("tool-maker", tool_code("make", _MAKER))
    folder = tmp_path / "granted"
    folder.mkdir()
    options = ["--allow-write=./granted", "--allow-run=sh", f"--isolation={level}", f"-C{tmp_path}"]
    before = os.umask(mask)
    try:
        done = paddock("call", source, "make", "{}", *options)
    finally:
        os.umask(before)
    assert done.returncode == 0 and done.stdout.strip() == "0o700", done.stderr  # the private home stays private
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in [*folder.iterdir(), *folder.glob("made/*")]}
    files, folders = oct(0o666 & ~mask), oct(0o777 & ~mask)
    assert modes == {"made": folders, "deep": folders, "file": files, "by_shell": files, "secret": "0o600"}
