"""A system call is made by its name, with whatever it takes, and its refusal is an error that names it."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from paddock_sandbox.syscall_numbers import numbers_here
from paddock_sandbox.syscalls import call
from support.rows import each_row


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64))


def test_a_call_takes_numbers_paths_structures_and_buffers(tmp_path: Path) -> None:
    assert call("getpid") == call(numbers_here()["getpid"]) == os.getpid()
    call("mkdirat", -100, os.fsencode(tmp_path / "made"), 0o700)
    assert (tmp_path / "made").is_dir()
    time = _Time()
    call("clock_gettime", 0, time)
    assert time.seconds > 0
    buffer = ctypes.create_string_buffer(4)
    with (tmp_path / "file").open("w+b", buffering=0) as file:
        file.write(b"abc")
        assert call("pread64", file.fileno(), buffer, 3, 0) == 3
        assert call("lseek", file.fileno(), 1 << 40, os.SEEK_SET) == 1 << 40, "a number keeps all its bits"
    assert buffer.raw == b"abc\0"


@each_row(
    ("name", "arguments", "number", "text"),
    [
        ("close", (-1,), errno.EBADF, "close: Bad file descriptor"),
        ("clock_gettime", (0, None), errno.EFAULT, "clock_gettime: Bad address"),
        ("mkdirat", (-100, b"/proc/self", 0), errno.EEXIST, "mkdirat: File exists"),
        (0x7FFF_FFFF, (), errno.ENOSYS, "2147483647: Function not implemented"),
    ],
)
def test_a_refusal_carries_the_kernels_number_and_names_the_call(
    name: str | int, arguments: tuple[int | bytes | None, ...], number: int, text: str
) -> None:
    with pytest.raises(OSError) as refused:
        call(name, *arguments)
    assert (refused.value.errno, refused.value.strerror) == (number, text)


def test_a_call_that_does_not_exist_here_is_no_refusal() -> None:
    with pytest.raises(KeyError, match="no_such_call"):
        call("no_such_call")
