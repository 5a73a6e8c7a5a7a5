"""Programs that shut themselves in: each in a process of its own, as the user who runs the tests or as an ordinary one.

It is forked from one that has loaded what programs import, and has nothing else.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import paddock_sandbox
from paddock_sandbox import capabilities

PATIENCE = 60.0
_LONGEST = 1 << 17  # bytes of a program with what is given to it
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
from paddock_sandbox.rlimits import Rlimit
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


# Loads what programs import, then becomes each of them in a child, whose end it reports.
_SERVE = f"""{_IMPORTS}
import paddock_sandbox.lockdown, paddock_sandbox.mounts, paddock_sandbox.namespaces, paddock_sandbox.self_check
def next_program(orders):
    while True:
        order, streams, _, _ = socket.recv_fds(orders, {_LONGEST}, 2)
        if not order:
            os._exit(0)
        child = os.fork()
        if child == 0:
            orders.close()
            for number, stream in enumerate(streams, start=1):
                os.dup2(stream, number)
                os.close(stream)
            return json.loads(order)
        for stream in streams:
            os.close(stream)
        handle = os.pidfd_open(child)  # before it is waited for: its number cannot have become another's
        socket.send_fds(orders, [b"."], [handle])
        os.close(handle)
        orders.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
program, environ, *sys.argv[1:] = next_program(socket.socket(fileno=int(sys.argv[1])))
os.environ.clear()
os.environ.update(environ)
exec(program, {{"__name__": "__main__"}})
"""


@functools.cache
def _process() -> socket.socket:
    """Start the process that becomes programs, which ends with this one; return where it takes its orders."""
    orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SERVE, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd="/",
        )
    orders.settimeout(PATIENCE)

    def end() -> None:
        orders.close()
        process.kill()
        process.wait(PATIENCE)

    atexit.register(end)
    return orders


@contextmanager
def _programs() -> Iterator[socket.socket]:
    """Lend where programs are ordered, to one order: after a failure its messages may still come, so none is read."""
    orders = _process()
    try:
        yield orders
    except BaseException:
        _process.cache_clear()
        orders.close()
        raise


def run(program: str, given: object = None, *, user: str = USERS[0], imports: str = "") -> Any:
    """Run a program and return what it tells; `given` is what it finds under that name.

    `imports` are lines that import what it needs beyond the usual.
    """
    _need(user)
    text = f"{_IMPORTS}{imports}\n{_PRELUDE}{program}"
    order = json.dumps([text, dict(os.environ), json.dumps([user, given])]).encode()
    reading, writing = os.pipe()
    with open(reading, "rb") as told, open(os.memfd_create("stderr"), "w+b") as errors:
        with _programs() as orders:
            with open(writing, "wb") as stdout:
                socket.send_fds(orders, [order], [stdout.fileno(), errors.fileno()])
            _, (child,), _, _ = socket.recv_fds(orders, 1, 1)
            try:
                said = _all_of(told.fileno())
            except TimeoutError:
                signal.pidfd_send_signal(child, signal.SIGKILL)
                raise
            finally:
                os.close(child)
            code = int(orders.recv(100))
        errors.seek(0)
        assert code == 0, errors.read().decode()
    return json.loads(said)


def _all_of(pipe: int) -> bytes:
    """Return what is written to a pipe until nothing has it open."""
    said, deadline = b"", time.monotonic() + PATIENCE
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (data := os.read(pipe, 1 << 16)):
            return said
        said += data
    raise TimeoutError(f"it does not end; so far it wrote {said!r}")


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
