"""Programs that shut themselves in: each in a process of its own, as whoever runs the tests or as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import paddock_sandbox
from paddock_sandbox import capabilities

PATIENCE = 60.0
ORDINARY = 65534  # "nobody": owns nothing, and may do nothing that root may

_CHOWN, _SETGID, _SETUID = 0, 6, 7


def _users() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ("ordinary",)
    may_change = {_CHOWN, _SETGID, _SETUID} <= capabilities.held().effective
    return ("root", "ordinary") if may_change else ("root",)


USERS = _users()
"""Whom a program can be run as: root wherever the tests are, and then an ordinary user too if root may become one."""

_HOST = Path(paddock_sandbox.__file__).parents[1]

# Everything is imported before the user changes: another user may be unable to reach the interpreter's files.
_IMPORTS = f"""
import ctypes, errno, fcntl, json, mmap, os, resource, signal, socket, stat, sys
sys.path.append({str(_HOST)!r})
from paddock_sandbox import capabilities, landlock, prctl, rlimits
from paddock_sandbox.landlock import Access, PathRule
from paddock_sandbox.rlimits import ResourceLimit
from paddock_sandbox.syscalls import call
"""

_PRELUDE = f"""
user, given = json.loads(sys.argv[1])
if user == "ordinary" and os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({ORDINARY}, {ORDINARY}, {ORDINARY})
    os.setresuid({ORDINARY}, {ORDINARY}, {ORDINARY})
    prctl.set_dumpable(True)  # or its own files in /proc would belong to root

def outcome(act, *arguments):
    "What became of it: `ok`, or the name of the kernel's refusal."
    try:
        act(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"

def in_a_child(act):
    "The exit code of a child that did it: 0, or the number of the kernel's refusal."
    child = os.fork()
    if child == 0:
        code = 255
        try:
            act()
            code = 0
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code) if code > 0 else "killed")

nowhere = os.open("/dev/null", os.O_WRONLY)  # now, while it can be opened

def output_of(*command):
    "What a program prints; OSError when it cannot be started, or when it fails."
    reading, writing = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_DUP2, nowhere, 2)]
    try:
        child = os.posix_spawn(command[0], command, {{}}, file_actions=actions)
        os.close(writing)
        writing = -1
        with open(reading, closefd=False) as pipe:
            printed = pipe.read()
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise OSError(errno.ECHILD, "it failed")
        return printed
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)

def tell(value):
    sys.stdout.write(json.dumps(value))
    sys.stdout.flush()
"""


def run(program: str, given: object = None, *, user: str = USERS[0], imports: str = "") -> Any:
    """Run a program and return what it tells; `given` is what it finds under that name.

    `imports` are lines that import what it needs beyond the usual.
    """
    _need(user)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{_IMPORTS}{imports}\n{_PRELUDE}{program}", json.dumps([user, given])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@contextmanager
def ground(user: str) -> Iterator[Path]:
    """A folder that belongs to the user and that the user can reach, which those of pytest are not."""
    _need(user)
    folder = Path(tempfile.mkdtemp(prefix="paddock-test-")).resolve()
    try:
        if user == "ordinary" and os.geteuid() == 0:
            os.chown(folder, ORDINARY, ORDINARY)
        yield folder
    finally:
        shutil.rmtree(folder)


def _need(user: str) -> None:
    if user not in USERS:
        pytest.skip(f"these tests run as {USERS[0]} and cannot become {user}")
