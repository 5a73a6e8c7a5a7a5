"""Objects that processes share by a number or a name alone: segments, queues and semaphores of the whole machine.

Every kind is tried; the attack on a kind that the machine lacks proves nothing there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from paddock_sandbox import syscalls

_CREATE: Final = 0o1000  # IPC_CREAT
_EXCLUSIVE: Final = 0o2000  # IPC_EXCL
_REMOVE: Final = 0  # IPC_RMID
_OWNERS: Final = 0o600
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - it is what others share that is wanted


class SharedObjects:
    """One of each kind, containing a secret where possible, under names that contain `mark`; they go with `stack`."""

    def __init__(self, stack: contextlib.ExitStack, mark: str, secret: str) -> None:
        self.key = secrets.randbelow(0x7FFFFFFF - 1) + 1
        self.queue = f"paddock-{mark}"
        self.file = _SHARED_MEMORY / f"paddock-{mark}"
        self._stack = stack
        kinds: tuple[Callable[[], object], ...] = (
            lambda: self._make_segment(secret),
            lambda: self._make("msg", self.key, _CREATE | _EXCLUSIVE | _OWNERS),
            lambda: self._make("sem", self.key, 1, _CREATE | _EXCLUSIVE | _OWNERS),
            self._make_queue,
            lambda: self._make_file(secret),
        )
        for make in kinds:
            with contextlib.suppress(OSError):
                make()

    def _make_segment(self, secret: str) -> None:
        number = self._make("shm", self.key, 4096, _CREATE | _EXCLUSIVE | _OWNERS)
        address = syscalls.call("shmat", number, None, 0)
        ctypes.memmove(address, secret.encode() + b"\0", len(secret) + 1)
        syscalls.call("shmdt", address)

    def _make(self, kind: str, *arguments: int) -> int:
        number: int = getattr(_libc, f"{kind}get")(*arguments)
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        control = getattr(_libc, f"{kind}ctl")
        removal = (number, 0, _REMOVE) if kind == "sem" else (number, _REMOVE, None)
        self._stack.callback(control, *removal)
        return number

    def _make_queue(self) -> None:
        name = self.queue.encode()
        os.close(syscalls.call("mq_open", name, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNERS, None))
        self._stack.callback(syscalls.call, "mq_unlink", name)

    def _make_file(self, secret: str) -> None:
        descriptor = os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        self._stack.callback(self.file.unlink, missing_ok=True)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret)


_libc = ctypes.CDLL(None, use_errno=True)
