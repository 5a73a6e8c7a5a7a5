"""Attacks with programs: running one without a grant, and breaking out by means of a granted one."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .child import executed
from .descriptors import held, opened
from .way import RefusedActError, Way, in_one_way

_EXIT_CODE = 42  # of the program below
# Machine code that ends its process with that exit code, and the number of the machine in an ELF header.
_CODE = {
    "x86_64": (62, b"\xbf\x2a\x00\x00\x00\xb8\xe7\x00\x00\x00\x0f\x05"),
    "aarch64": (183, struct.pack("<3I", 0xD2800540, 0xD2800BC8, 0xD4000001)),
}
_LOADED_AT = 0x400000
_HEADER, _SEGMENT = 64, 56  # bytes


def run_a_shell(shell: str) -> Iterator[Way]:
    yield "execve", lambda: _output(*executed(shell, [shell, "-c", "exit 42"]))
    yield "posix_spawn", lambda: _output(_spawned(shell), "")
    yield "subprocess", lambda: _output(_run(shell), "")


@in_one_way("memfd_create, execveat")
def run_code_from_memory() -> str:
    """Run a program that is in no file, so that no rule about files can stop it."""
    with held(os.memfd_create("program")) as descriptor:
        os.write(descriptor, _program())
        return _output(*executed(descriptor, ["own"]))


def run_its_own_program() -> Iterator[Way]:
    """Write a program to the private folder and run it."""
    yield "execve", lambda: _output(*executed(_own_program(), ["own"]))
    yield "by descriptor", _run_by_descriptor


def break_out_with_a_shell(shell: str, path: str, pid: int, port: int) -> Iterator[Way]:
    """Make a shell read a file, signal a process and connect to a port; it prints `here` first, to show that it ran."""
    yield "read", lambda: _said_by(shell, f'read -r line < "{path}" && echo "$line"')
    yield "signal", lambda: _said_by(shell, f"kill -s URG {pid} && echo signalled")
    yield "write", lambda: _said_by(shell, f'echo was here >> "{path}" && echo written')
    if os.path.basename(shell) == "bash":
        yield "connect", lambda: _said_by(shell, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")


def _run(shell: str) -> int:
    return subprocess.run([shell, "-c", "exit 42"], check=False).returncode  # noqa: S603 - that is the attack


def _spawned(shell: str) -> int:
    child = os.posix_spawn(shell, [shell, "-c", "exit 42"], {})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _output(code: int, printed: str) -> str:
    if code != _EXIT_CODE:
        raise RuntimeError(f"the program ended with code {code}: {printed}")
    return "it ran"


def _said_by(shell: str, command: str) -> str:
    _, printed = executed(shell, [shell, "-c", f"echo here; {{ {command}; }} 2>/dev/null"])
    if not printed.startswith("here\n"):
        raise RuntimeError(f"the shell did not run: {printed!r}")
    said = printed.removeprefix("here\n")
    if not said:
        raise RefusedActError("EPERM", "the shell ran and could not")
    return said


def _run_by_descriptor() -> str:
    with opened(_own_program()) as descriptor:
        return _output(*executed(descriptor, ["own"]))


def _own_program() -> str:
    path = Path(tempfile.mkdtemp(prefix="attack-"), "program")
    path.write_bytes(_program())
    path.chmod(0o700)
    return str(path)


def _program() -> bytes:
    """Return the smallest program: a header, one segment, and a few instructions."""
    machine, code = _CODE[platform.machine()]
    size = _HEADER + _SEGMENT + len(code)
    identity = b"\x7fELF" + bytes((2, 1, 1, 0)) + bytes(8)
    entry = _LOADED_AT + _HEADER + _SEGMENT
    header = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, entry, _HEADER, 0, 0, _HEADER, _SEGMENT, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOADED_AT, _LOADED_AT, size, size, 0x1000)
    return identity + header + segment + code
