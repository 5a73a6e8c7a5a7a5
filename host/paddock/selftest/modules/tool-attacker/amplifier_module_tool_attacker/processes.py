"""Attacks on other processes: signals, tracing, their memory, descriptors, environment and limits."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from .child import in_a_child
from .descriptors import held, opened
from .raw_calls import call, checked, declare, reach
from .way import RefusedActError, Way, in_one_way

# A harmless signal: a process that did not ask for it never notices.
_SIGNAL = signal.SIGURG

_F_SETSIG = 10
_PTRACE_SEIZE = 0x4206
_SI_QUEUE = -1
_LOWEST_IO_PRIORITY = (2 << 13) | 7  # best effort, 7
_IDLE = struct.pack("IIQiIQQQ", 48, os.SCHED_IDLE, 0, 0, 0, 0, 0, 0)  # struct sched_attr
_NOBODY = 0x7FFFFFF0  # a user that runs nothing


def kill_the_host(pids: Mapping[str, int]) -> Iterator[Way]:
    """Signal each process in every available way; the right to send one signal is the right to send any."""
    for name, pid in pids.items():
        yield f"kill {name}", partial(os.kill, pid, _SIGNAL)
        yield f"tgkill {name}", partial(call, "tgkill", pid, pid, int(_SIGNAL))
        yield f"rt_sigqueueinfo {name}", partial(_queue, pid)
        yield f"pidfd_send_signal {name}", partial(_signal_by_descriptor, pid)


@in_one_way("kill")
def kill_everything(pid: int) -> None:
    """Signal every reachable process: `pid` is -1, or the number of a group, negative."""
    # The result proves nothing: the kernel also reports success when it signalled no process.
    os.kill(pid, _SIGNAL)


@in_one_way("F_SETOWN")
def signal_through_a_file(pid: int) -> str:
    """Make the kernel signal a process on behalf of a pipe with data to read."""
    left, right = os.pipe()
    with held(left, right):
        fcntl.fcntl(left, fcntl.F_SETOWN, pid)
        fcntl.fcntl(left, _F_SETSIG, int(_SIGNAL))
        fcntl.fcntl(left, fcntl.F_SETFL, fcntl.fcntl(left, fcntl.F_GETFL) | fcntl.FASYNC)
        os.write(right, b"x")
        # As above: the owner of a pipe is not necessarily signalled.
        return f"the pipe is owned by {pid}"


def trace_a_process(pids: Mapping[str, int]) -> Iterator[Way]:
    for name, pid in pids.items():
        # In a child, whose end ends the tracing.
        yield f"ptrace {name}", partial(in_a_child, partial(_seize, pid))


def read_memory_of_a_process(pid: int, address: int, content: str) -> Iterator[Way]:
    """Read the memory at an address, and write it; `content` is its present content, so that nothing changes."""
    yield "process_vm_readv", lambda: _copied(_vm_readv, pid, address, bytes(len(content)))
    yield "process_vm_writev", lambda: _copied(_vm_writev, pid, address, content.encode())
    yield "/proc/<pid>/mem", lambda: _read_at(f"/proc/{pid}/mem", address, len(content))


def steal_a_descriptor(pid: int, descriptor: int) -> Iterator[Way]:
    yield "pidfd_getfd", lambda: _stolen(pid, descriptor)
    yield "/proc/<pid>/fd", lambda: _read_at(f"/proc/{pid}/fd/{descriptor}", 0, 100)
    yield "compare by kcmp", lambda: f"answered {call('kcmp', os.getpid(), pid, 0, 0, descriptor)}"


def read_environment_of_a_process(pids: Mapping[str, int]) -> Iterator[Way]:
    for name, pid in pids.items():
        for file in ("environ", "cmdline", "maps", "auxv"):
            yield f"{file} of {name}", partial(_read_at, f"/proc/{pid}/{file}", 0, 100)


def change_limits_of_a_process(pid: int) -> Iterator[Way]:
    yield "prlimit", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (16, 16))
    yield "setpriority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)
    yield "setpriority of its group", lambda: os.setpriority(os.PRIO_PGRP, pid, 19)
    yield "sched_setaffinity", lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(pid))})
    yield "sched_setscheduler", lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
    yield "sched_setattr", lambda: call("sched_setattr", pid, ctypes.create_string_buffer(_IDLE, len(_IDLE)), 0)
    yield "ioprio_set", lambda: call("ioprio_set", 1, pid, _LOWEST_IO_PRIORITY)
    yield "oom_score_adj", lambda: _write(f"/proc/{pid}/oom_score_adj", "1000")


def renice_everything_of_the_user() -> Iterator[Way]:
    """Request it for a user who runs nothing: the kernel's answer is then that it found no process."""
    yield "setpriority", lambda: reach("setpriority", os.PRIO_USER, _NOBODY, 0)
    yield "ioprio_set", lambda: reach("ioprio_set", 3, _NOBODY, _LOWEST_IO_PRIORITY)


def _queue(pid: int) -> None:
    information = struct.pack("iii", int(_SIGNAL), 0, _SI_QUEUE)
    call("rt_sigqueueinfo", pid, int(_SIGNAL), ctypes.create_string_buffer(information, 128))


def _signal_by_descriptor(pid: int) -> None:
    with held(os.pidfd_open(pid)) as process:
        signal.pidfd_send_signal(process, _SIGNAL)


def _seize(pid: int) -> str:
    checked(_ptrace(_PTRACE_SEIZE, pid, None, None))
    return f"traces {pid}"


class _Area(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _copied(copy: Callable[..., int], pid: int, address: int, content: bytes) -> str:
    memory = ctypes.create_string_buffer(content, len(content))
    here, there = _Area(ctypes.addressof(memory), len(content)), _Area(address, len(content))
    copied = checked(copy(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
    return f"{copied} bytes: {memory.raw.decode(errors='replace')}"


def _stolen(pid: int, descriptor: int) -> str:
    with held(os.pidfd_open(pid)) as process, held(call("pidfd_getfd", process, descriptor, 0)) as copy:
        return os.pread(copy, 100, 0).decode()


def _read_at(path: str, offset: int, size: int) -> str:
    with opened(path) as descriptor:
        data = os.pread(descriptor, size, offset)
    if not data:
        raise RefusedActError("ENOENT", f"{path} is empty")
    return data.decode(errors="surrogateescape")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


_ptrace = declare("ptrace", ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_AREAS = (ctypes.POINTER(_Area), ctypes.c_ulong)
_vm_readv, _vm_writev = (
    declare(name, ctypes.c_ssize_t, ctypes.c_int, *_AREAS, *_AREAS, ctypes.c_ulong)
    for name in ("process_vm_readv", "process_vm_writev")
)
