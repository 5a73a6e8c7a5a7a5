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
import struct
import time
from typing import Final

from paddock_sandbox import namespaces
from paddock_sandbox.syscalls import WAIT_SECONDS, call

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


# Of struct shminfo: segments, their pages; of msginfo: the bytes of a queue, queues; of seminfo: sets, semaphores.
_SEGMENT_LIMITS: Final = struct.Struct("16xL8xL32x")
_QUEUE_LIMITS: Final = struct.Struct("12xii12x")
_SEMAPHORE_LIMITS: Final = struct.Struct("4xii28x")


def are_bounded() -> bool:
    """Return whether the limits are in force, or stricter ones."""
    try:
        segments, pages = _limits(_SEGMENT_LIMITS, "shmctl", 0)
        queue_bytes, queues = _limits(_QUEUE_LIMITS, "msgctl", 0)
        sets, semaphores = _limits(_SEMAPHORE_LIMITS, "semctl", 0, 0)
    except OSError:
        return False
    most = (SEGMENT_BYTES, _SEGMENTS, _QUEUES, _QUEUE_BYTES, _SEMAPHORES[1], _SEMAPHORES[3])
    found = (pages * mmap.PAGESIZE, segments, queues, queue_bytes, semaphores, sets)
    return all(one <= bound for one, bound in zip(found, most, strict=True))


def _limits(form: struct.Struct, control: str, *of: int) -> tuple[int, int]:
    known = ctypes.create_string_buffer(form.size)
    call(control, *of, _IPC_INFO, known)
    first, second = form.unpack(known)
    return first, second


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
            time.sleep(WAIT_SECONDS)
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
