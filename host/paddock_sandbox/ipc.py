"""Bound the System V objects of a process: segments, queues and semaphores outlive every mapping.

Each IPC namespace has limits of its own, next to none at first. Only root of the user namespace that owns it may set
them, and only on some kernels (from Linux 6.9 on). Calls that need neither a right nor `/proc` check whether the limits
are in force.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from typing import Final

from paddock_sandbox import namespaces
from paddock_sandbox.syscalls import call

SEGMENT_BYTES: Final = 8 << 20  # of all segments together
_SEGMENTS: Final = 64
_QUEUES: Final = 4
_QUEUE_BYTES: Final = 16384  # and as many messages of no bytes, which take 64 each
_SEMAPHORES: Final = (250, 1024, 32, 64)  # in a set, altogether, in one operation, sets

_SETTINGS: Final = {
    "shmmax": str(SEGMENT_BYTES),
    "shmall": str(SEGMENT_BYTES // mmap.PAGESIZE),
    "shmmni": str(_SEGMENTS),
    "msgmni": str(_QUEUES),
    "msgmnb": str(_QUEUE_BYTES),
    "sem": " ".join(map(str, _SEMAPHORES)),
}
_IPC_INFO: Final = 3


class _SegmentLimits(ctypes.Structure):
    """struct shminfo."""

    _fields_ = tuple((name, ctypes.c_ulong) for name in ("max", "min", "number", "each", "pages", *"abcd"))


class _QueueLimits(ctypes.Structure):
    """struct msginfo."""

    _fields_ = tuple((name, ctypes.c_int) for name in ("pool", "map", "max", "bytes", "number", "size", "all", "rest"))


class _SemaphoreLimits(ctypes.Structure):
    """struct seminfo."""

    _fields_ = tuple(
        (name, ctypes.c_int)
        for name in ("map", "sets", "all", "undo", "each", "operation", "most_undo", "size", "value", "adjust")
    )


def are_bounded() -> bool:
    """Return whether the limits are in force, or stricter ones."""
    segments, queues, semaphores = _SegmentLimits(), _QueueLimits(), _SemaphoreLimits()
    try:
        call("shmctl", 0, _IPC_INFO, segments)
        call("msgctl", 0, _IPC_INFO, queues)
        call("semctl", 0, 0, _IPC_INFO, semaphores)
    except OSError:
        return False
    return bool(
        segments.pages * mmap.PAGESIZE <= SEGMENT_BYTES
        and segments.number <= _SEGMENTS
        and queues.number <= _QUEUES
        and queues.bytes <= _QUEUE_BYTES
        and semaphores.all <= _SEMAPHORES[1]
        and semaphores.sets <= _SEMAPHORES[3]
    )


def enter_bounded_namespace() -> None:
    """Move the calling process, of a user namespace without a root, into an IPC namespace that has these limits.

    A child makes it, in a user namespace where it is root. The calling process has one thread, and capabilities.

    Raises:
        OSError: it cannot be made or entered.
    """
    uid, gid = os.getuid(), os.getgid()
    made, say = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            namespaces.leave_for_new_ipc(uid, gid)
            for name, value in _SETTINGS.items():
                with open(f"/proc/sys/kernel/{name}", "w", encoding="ascii") as setting:
                    setting.write(value)
            os.write(say, b".")
            signal.pause()
        finally:
            os._exit(0)
    os.close(say)
    try:
        if not os.read(made, 1):
            raise PermissionError("no IPC namespace with limits can be made")
        namespaces.enter_ipc_of(child)
    finally:
        os.close(made)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
