"""Attacks on the kernel itself: calls that no module needs, other architectures' calls, privileges, namespaces."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .child import in_a_child
from .raw_calls import NUMBERS, call, checked, libc, reach, shmat
from .way import RefusedActError, Way

_CLONE_NEWUSER = 0x10000000
_NO_NEW_PRIVS = 39  # PR_GET_NO_NEW_PRIVS
_CAPABILITY_VERSION = 0x20080522
_X32 = 0x40000000
# mov eax, 20 (getpid of i386); int 0x80; ret
_GETPID_OF_I386 = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
_GETPID_OF_X86_64 = 39


def reach_the_kernel(calls: Sequence[Sequence[Any]]) -> Iterator[Way]:
    """Make those calls that the machine has, each given as its name and arguments, which cannot have an effect."""
    for name, *arguments in calls:
        if name in NUMBERS:
            yield name, partial(reach, name, *arguments)


def type_into_the_terminal(commands: Mapping[str, int], address: int) -> Iterator[Way]:
    for name, command in commands.items():
        yield name, partial(reach, "ioctl", 1, command, address)


def make_namespaces() -> Iterator[Way]:
    """Become root of another user, through namespaces of one's own."""
    yield "unshare", lambda: in_a_child(lambda: call("unshare", _CLONE_NEWUSER))
    yield "clone", _cloned
    yield "setns", lambda: reach("setns", -1, 0)


def call_as_another_architecture() -> Iterator[Way]:
    """Make calls that a filter with only one table of numbers takes for others."""
    if platform.machine() == "x86_64":
        yield "int 0x80", lambda: in_a_child(_called_as_i386)
        yield "x32", lambda: in_a_child(lambda: call(_X32 | _GETPID_OF_X86_64))


def hold_privileges() -> Iterator[Way]:
    yield "capabilities", _capabilities
    yield "set-user-ID programs", _new_privileges
    try:
        os.listdir("/proc/self/task")
    except OSError:
        return  # nothing here lists the threads
    yield "threads that were forgotten", _threads


def read_memory_shared_by_others(key: int, queue: str, file: str) -> Iterator[Way]:
    """Access shared objects with a number or a name: segments, queues and semaphores of the whole machine."""
    yield "shared memory", lambda: _segment(key)
    yield "message queue", lambda: f"queue {checked(libc.msgget(key, 0))}"
    yield "semaphores", lambda: f"set {checked(libc.semget(key, 1, 0))}"
    yield "POSIX message queue", lambda: os.close(call("mq_open", queue, os.O_RDONLY, 0, 0))
    yield "file in shared memory", lambda: Path(file).read_text(encoding="utf-8")


def _cloned() -> str:
    child = call("clone", _CLONE_NEWUSER | int(signal.SIGCHLD), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return f"made process {child}"


def _called_as_i386() -> int:
    private, allowed = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory = mmap.mmap(-1, mmap.PAGESIZE, private, allowed)
    memory.write(_GETPID_OF_I386)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    result: int = ctypes.PYFUNCTYPE(ctypes.c_int)(address)()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _capabilities() -> str:
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(24)
    checked(libc.capget(header, sets))
    # Effective, permitted and inheritable of the lower half, then of the upper.
    held = struct.unpack("6I", sets.raw)
    if not any(held):
        raise RefusedActError("EPERM", "there are none")
    return f"effective {held[0] | held[3] << 32:#x}"


def _new_privileges() -> str:
    if libc.prctl(_NO_NEW_PRIVS, 0, 0, 0, 0) == 1:
        raise RefusedActError("EPERM", "their bits mean nothing here")
    return "their bits are honoured"


def _threads() -> str:
    restricted = [
        Path(f"/proc/self/task/{task}/status").read_text(encoding="utf-8").count("\nSeccomp:\t2")
        for task in os.listdir("/proc/self/task")
    ]
    if all(restricted):
        raise RefusedActError("EPERM", "the filter is on every thread")
    return f"{restricted.count(0)} threads without a filter"


def _segment(key: int) -> str:
    address = shmat(checked(libc.shmget(key, 0, 0)), None, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        checked(-1)
    content = ctypes.string_at(address)
    libc.shmdt(ctypes.c_void_p(address))
    return content.decode(errors="replace")
