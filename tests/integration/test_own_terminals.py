"""Programs of a module open terminals of their own, and no other process's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from integration.command_line import paddock, require_level
from integration.tricky_tool import json_output

_ATTACK = """
import errno, fcntl, json, os, pty, sys

outsiders = sys.argv[1]


def outcome(act, *arguments):
    try:
        act(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def write(path):
    fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        os.write(fd, b"typed")
    finally:
        os.close(fd)


told = {
    "by its name": outcome(write, outsiders),
    "its own": outcome(write, "/dev/tty"),
    "by a new node": outcome(os.mknod, "node", 0o20666, os.makedev(136, int(os.path.basename(outsiders)))),
}
if "inside" in sys.argv:
    ours, program = os.openpty()
    told["listed"] = os.listdir("/dev/pts")
    child, line = pty.fork()
    if child == 0:
        os.execvp("stty", ["stty", "size"])
    told["program"] = os.read(line, 99).decode().split()
    os.waitpid(child, 0)
    # Keys for the reader of a terminal, a selection for a console, all output of the machine, other kernel code.
    for name, request in {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCCONS": 0x541D, "TIOCSETD": 0x5423}.items():
        told[name] = outcome(fcntl.ioctl, program, request, b"x" * 8)
    held = []
    told["most"] = outcome(lambda: held.extend(os.openpty() for _ in range(100)))
    told["count"] = len(held)
print(json.dumps(told))
"""


@pytest.mark.parametrize("level", ["ns", "bwrap"])
def test_programs_open_their_own_terminals_and_no_others(home: Path, level: str) -> None:
    require_level(level)
    work = home / "work"
    (work / "attack.py").write_text(_ATTACK)
    ours, theirs = os.openpty()
    try:
        terminal = os.ttyname(theirs)
        os.write(ours, b"")
        with open(terminal, "wb", buffering=0) as outside:  # what the module must not do succeeds here
            outside.write(b"seen")
        assert os.read(ours, 9) == b"seen"
        told = _inside(work, terminal, level, "--allow-run=*")
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 9)
    finally:
        os.close(ours)
        os.close(theirs)
    assert told.pop("listed") == ["0", "ptmx"] and told.pop("program") == ["0", "0"]
    assert told.pop("count") < 64
    assert told == {
        **{"by its name": "ENOENT", "its own": "ENOENT", "by a new node": "EACCES", "most": "ENOSPC"},
        **dict.fromkeys(("TIOCSTI", "TIOCLINUX", "TIOCCONS", "TIOCSETD"), "EPERM"),
    }


def _inside(work: Path, terminal: str, level: str, *granted: str) -> dict[str, object]:
    call = {"command": f"/usr/bin/python3 attack.py {terminal} inside"}
    given = ("--allow-write=.", f"--isolation={level}", "--json", "-C", str(work), *granted)
    done = json_output(paddock("call", "builtin:tool-bash", "bash", json.dumps(call), *given))
    assert done["output"]["stdout"], done["output"]["stderr"]
    told: dict[str, object] = json.loads(done["output"]["stdout"])
    return told
