"""Make system calls by number, without the checks of any library."""

from __future__ import annotations

import ctypes
import errno
import os

__all__ = ["call", "reach"]

_UNHEARD = (errno.EPERM, errno.EACCES, errno.ENOSYS)

# With the interpreter's lock held: some of these calls return twice.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

Argument = int | str | bytes | ctypes.Structure | ctypes.Array[ctypes.c_char]


def call(number: int, *arguments: Argument) -> int:
    """Make the call and return its result.

    Raises:
        OSError: it failed.
    """
    result: int = _libc.syscall(ctypes.c_long(number), *map(_word, arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def reach(number: int, *arguments: Argument) -> str:
    """Make a call with arguments that have no effect, and return the answer: the kernel examined the arguments.

    Raises:
        OSError: it did not; the call was refused as such.
    """
    try:
        return f"answered {call(number, *arguments)}"
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
