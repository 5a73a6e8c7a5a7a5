"""Recognise a limit of the module in the words of a failure: the kernel refuses, and names no limit.

A program that the module started reports the same words as the kernel does to the module itself. One that the kernel
ended for the size of a file or for memory reports nothing, and its exit code says it. A full disk of the user's looks
like a full private folder, so the folders are looked at too. This is advice; it raises nothing.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_MAX_CHARACTERS: Final = 65536  # of one text, at its end, where failures are
_FULL_BYTES: Final = 64 << 10  # no more is free in a file system that is full

# In the words of the C library and of Python.
_SPACE: Final = os.strerror(errno.ENOSPC)
_WORDS: Final = {
    os.strerror(errno.EMFILE): "open_files_max",
    os.strerror(errno.EFBIG): "file_size_max",
    "File size limit exceeded": "file_size_max",  # a shell, about a program that SIGXFSZ ended
    "can't start new thread": "tasks_max",
    "Cannot fork": "tasks_max",  # dash
    "Killed": "killed",  # a shell
}
_NO_TASK: Final = os.strerror(errno.EAGAIN)
_BY_SIGNAL: Final = {signal.SIGXFSZ: "file_size_max", signal.SIGKILL: "killed"}
_BY_EXIT_CODE: Final[Mapping[int | None, str]] = {  # Python's, and a shell's
    code: key for number, key in _BY_SIGNAL.items() for code in (-number, 128 + number)
}
# `make` names the program that it could not start, and gives its job this number.
_OF_FORKS: Final = ("fork", "_execute_child", "_posix_spawn", "clone", "start_new_thread", "Error 127")


def limits_in(failure: object, private: str) -> list[str]:
    """Return the keys of the limits that a result or an exception speaks of; `private` is the private folder.

    `killed` is no limit: only the host knows what the program was killed for.
    """
    found: dict[str, None] = {}
    if (key := _BY_EXIT_CODE.get(exit_code(failure))) is not None:
        found[key] = None
    for text in _texts(failure):
        found |= {key: None for words, key in _WORDS.items() if words in text}
        if _NO_TASK in text and any(word in text for word in _OF_FORKS):
            found["tasks_max"] = None
        if _SPACE in text and not is_full(".", apart_from=private):
            found["tmp_max"] = None
    return list(found)


def is_full(folder: str, apart_from: str = "") -> bool:
    """Whether nothing more goes into a folder's file system, if that is not the one of `apart_from`."""
    try:
        if apart_from and os.stat(folder).st_dev == os.stat(apart_from).st_dev:
            return False
        facts = os.statvfs(folder)
    except OSError:
        return False
    return facts.f_bavail * facts.f_frsize <= _FULL_BYTES or (0 < facts.f_files and not facts.f_favail)


def exit_code(failure: object) -> int | None:
    """Return the exit code of the program that a result or an exception is about, if it is about one."""
    if isinstance(failure, BaseException):
        code = failure.args[0] if isinstance(failure, subprocess.CalledProcessError) and failure.args else None
    else:
        output = getattr(failure, "output", None)
        code = output.get("returncode") if type(output) is dict else None
    return code if type(code) is int else None


def _texts(failure: object) -> Iterator[str]:
    if isinstance(failure, BaseException):
        # By the arguments: the text of an exception of the module's own class is code of its own.
        yield from _strings(failure.args)
        if isinstance(failure, BlockingIOError) and failure.errno == errno.EAGAIN:
            trace, innermost = failure.__traceback__, ""
            while trace is not None:
                innermost, trace = trace.tb_frame.f_code.co_name, trace.tb_next
            yield f"{_NO_TASK} {innermost}"
        return
    for value in (getattr(failure, "error", None), getattr(failure, "output", None)):
        yield from _strings(value.values() if type(value) is dict else (value,))


def _strings(values: Iterable[Any]) -> Iterator[str]:
    return (one[-_MAX_CHARACTERS:] for one in values if type(one) is str)
