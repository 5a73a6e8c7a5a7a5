"""Make system calls without the checks of any library, and calls of the C library."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any

_UNHEARD = (errno.EPERM, errno.EACCES, errno.ENOSYS)

NUMBERS: dict[str, int] = {}
"""The number of every system call of this machine, which come with the order to attack."""

# With the interpreter's lock held: some of these calls return twice.
_locked = ctypes.PyDLL(None, use_errno=True)
_locked.syscall.restype = ctypes.c_long
libc = ctypes.CDLL(None, use_errno=True)  # without it: other calls may wait

Argument = int | str | bytes | ctypes.Structure | ctypes.Array[ctypes.c_char]


def call(name: str | int, *arguments: Argument) -> int:
    """Make the call of a name or number, and return its result.

    Raises:
        OSError: it failed.
    """
    number = NUMBERS[name] if isinstance(name, str) else name
    return checked(_locked.syscall(ctypes.c_long(number), *map(_word, arguments)))


def checked(result: int) -> int:
    """Return the result of a call that is below zero where it failed.

    Raises:
        OSError: it failed.
    """
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def declare(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return the C library's function of this name, with the types of its result and arguments."""
    return ctypes.CFUNCTYPE(result, *arguments, use_errno=True)((name, libc))


shmat = declare("shmat", ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


def reach(name: str, *arguments: Argument) -> str:
    """Make a call with arguments that have no effect, and return the answer: the kernel examined the arguments.

    Raises:
        OSError: it did not; the call was refused as such.
    """
    try:
        return f"answered {call(name, *arguments)}"
    except OSError as error:
        if error.errno in _UNHEARD:
            raise
        return f"answered {errno.errorcode.get(error.errno or 0, error.errno)}"


def _word(argument: Argument) -> object:
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, str):
        argument = argument.encode()
    return ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.byref(argument)
