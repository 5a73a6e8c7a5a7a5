"""The reference module tool-bash, shut in: what it runs, what it is refused and says so, and what ends with it."""

from __future__ import annotations

import os
import subprocess
import tarfile
import venv
from pathlib import Path
from typing import Any

import pytest

from integration.probe import call_once
from paddock_sandbox.profile import IsolationLevel

_SECONDS = 60  # for a whole session; hit only by a hang


@pytest.fixture
def project(home: Path) -> Path:
    """A repository with a virtual environment, whose `check` is a program of the project's own."""
    work = home / "work"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(work)], check=True, timeout=_SECONDS)
    venv.create(work / ".venv", symlinks=True)
    check = work / ".venv/bin/check"
    check.write_text(f"#!{work}/.venv/bin/python\nimport json, sys\nprint('1 passed in', sys.prefix)\n")
    check.chmod(0o755)
    return work


async def _bash(command: str, work: Path, level: IsolationLevel, **permissions: list[str]) -> Any:
    """Return what a shell says to a command in `work`."""
    granted = {"read": ["."], **permissions}
    options: dict[str, Any] = {"permissions": granted, "isolation": level, "home": work.parent}
    return (await call_once("builtin:tool-bash", "bash", {"command": command}, **options)).result


async def test_a_program_that_was_not_granted_is_named_with_its_line(project: Path, a_level: IsolationLevel) -> None:
    (project / "build").write_text("#!/bin/sh\necho built\n")
    (project / "build").chmod(0o755)

    async def bash(command: str, *programs: str) -> Any:
        return await _bash(command, project, a_level, run=list(programs))

    refused = await bash("./build", "bash")
    assert refused.error["type"] == "not_executed" and refused.error["program"] == "./build"
    assert [one["grant"] for one in refused.error["denials"]] == [
        'permissions: {read: ["."], run: ["bash", "./build"]}'
    ]
    assert (await bash("./build", "bash", "./build")).output["stdout"] == "built\n"
    refused = await bash("git status", "bash")
    assert refused.error["program"] == "git"
    assert 'permissions: {read: ["."], run: ["bash", "git"]}' in [one["grant"] for one in refused.error["denials"]]
    refused = await bash("true")
    assert refused.error["type"] == "no_shell"
    assert 'permissions: {read: ["."], run: ["bash"]}' in [one["grant"] for one in refused.error["denials"]]


_OWNER = 4242  # of nobody's

_RIGHTS = """
import ctypes, os, sys
if len(sys.argv) == 1:
    told = []
    for uid in (0, 1, os.getuid()):
        try:
            os.setresuid(uid, uid, uid)
        except OSError as error:
            told.append(error.strerror)
    print(os.getuid(), os.getgid(), told, flush=True)
    os.execv(sys.executable, [sys.executable, sys.argv[0], "as another program"])
libc = ctypes.CDLL(None)
sets = ctypes.create_string_buffer(24)
assert libc.capget(ctypes.create_string_buffer((0x20080522).to_bytes(4, "little") + bytes(4)), sets) == 0
print(sum(sets.raw), *(sum(libc.prctl(*ask, number, 0, 0) == 1 for number in range(41)) for ask in ((23,), (47, 1))))
try:
    print([int(line.split()[1], 16) for line in open("/proc/self/status") if line.startswith("Cap")])
except PermissionError:
    print("no /proc")
"""


def _put_archive_of_another(place: Path) -> None:
    with tarfile.open(place, "w") as archive:
        entry = tarfile.TarInfo("unpacked")
        entry.uid = entry.gid = _OWNER + 1
        archive.addfile(entry)


def _give(folder: Path, owner: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)


@pytest.mark.exhaustive("4242")
@pytest.mark.parametrize("owner", [os.geteuid(), _OWNER])
async def test_a_shell_is_an_ordinary_user_to_whom_the_folder_belongs(
    owner: int, project: Path, ns: IsolationLevel
) -> None:
    if owner != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    _put_archive_of_another(project / "other.tar")
    _give(project, owner)
    said = await _bash(
        "tar xf other.tar && id -un && id -gn && git status --short other.tar", project, ns, write=["."], run=["*"]
    )
    assert said.output["stderr"] == ""
    assert said.output["stdout"] == "module\nmodule\n?? other.tar\n"
    made = (project / "unpacked").stat()
    assert (made.st_uid, made.st_gid) == (owner, owner)


@pytest.mark.exhaustive("landlock")
async def test_no_change_of_user_and_no_program_brings_a_capability(project: Path, level: IsolationLevel) -> None:
    (project / "rights.py").write_text(_RIGHTS)
    said = await _bash("/usr/bin/python3 rights.py", project, level, run=["*"])
    ids, sets, of_proc = said.output["stdout"].splitlines()
    is_root = os.geteuid() == 0
    if level == "ns":
        user = "1000 1000" if is_root else f"{os.getuid()} {os.getgid()}"
        assert (ids, of_proc) == (f"{user} {['Invalid argument'] * 2}", str([0] * 5))
    held, bounding, ambient = map(int, sets.split())
    assert (held, ambient) == (0, 0)
    # Only who has a capability can empty that set; `no_new_privs` makes it worthless.
    assert (bounding == 0) is (level == "ns" or is_root)
