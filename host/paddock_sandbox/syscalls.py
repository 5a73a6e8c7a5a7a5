"""Make system calls by name or number, with the interpreter lock held, and check their outcome.

Every failure is an OSError that carries the kernel's number and names the call. This file does not know why a call is
made.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

from paddock_sandbox.syscall_numbers import numbers_here

# Called with the interpreter lock held: callers have one thread, and the lock must not be released around a fork.
_libc: Final = ctypes.PyDLL(None, use_errno=True)
_syscall: Final = _libc.syscall
_syscall.restype = ctypes.c_long
_numbers: Final = numbers_here()

Argument = int | bytes | ctypes.Structure | ctypes.Array[ctypes.c_char] | None
"""A number, bytes with a final NUL added (a path), a structure passed by its address, or a null pointer."""


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


def _word(argument: Argument) -> object:
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    return ctypes.byref(argument)
