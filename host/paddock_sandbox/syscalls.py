"""Make system calls by name or number, with the interpreter lock held, and check their outcome.

Every failure is an OSError that carries the kernel's number and names the call. This file does not know why a call is
made.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

from paddock_sandbox.syscall_numbers import numbers_here

# Called with the interpreter lock held: callers have one thread, and the lock must not be released around a fork.
_libc: Final = ctypes.PyDLL(None, use_errno=True)
_syscall: Final = _libc.syscall
_syscall.restype = ctypes.c_long
_numbers: Final = numbers_here()
_clone: Final = _libc.clone
_clone.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_CLONE_VM: Final = 0x0000_0100
_STACK_BYTES: Final = 1 << 14
WAIT_SECONDS: Final = 30  # its parent ends a waiting child within a moment; one that is killed leaves it for so long

Argument = int | bytes | ctypes.Structure | ctypes.Array[ctypes.c_char] | None
"""A number, bytes that the kernel only reads, with a final NUL added, a structure passed by its address, or a null
pointer."""


def call(name: str | int, *arguments: Argument) -> int:
    """Make one system call, by its name or number, and return its result.

    Raises:
        OSError: the kernel refused it.
        KeyError: this architecture has no such call.
    """
    number = name if isinstance(name, int) else _numbers[name]
    result: int = _syscall(ctypes.c_long(number), *map(_word, arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result


class WaitingProcess:
    """A child with this process's memory, of which nothing is copied; it waits for a while, and runs no code of Python.

    The caller has one thread, and calls `end`.

    Raises:
        OSError: the kernel refused it.
    """

    def __init__(self, flags: int) -> None:
        self._stack = ctypes.create_string_buffer(_STACK_BYTES)
        top = (ctypes.addressof(self._stack) + _STACK_BYTES) & ~0xF
        wait = ctypes.cast(_libc.sleep, ctypes.c_void_p)
        # A signal to both would have it run this process's handler, in the same memory at the same time.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid: int = _clone(wait, top, flags | _CLONE_VM | signal.SIGCHLD, WAIT_SECONDS)
            error = ctypes.get_errno()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if self.pid < 0:
            raise OSError(error, f"clone: {os.strerror(error)}")

    def end(self) -> None:
        """End it, and return once it has ended: until then it stands on its stack."""
        os.kill(self.pid, signal.SIGKILL)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # a caller that ignores SIGCHLD has the kernel reap it, and waits all the same


def _word(argument: Argument) -> object:
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    return ctypes.byref(argument)
