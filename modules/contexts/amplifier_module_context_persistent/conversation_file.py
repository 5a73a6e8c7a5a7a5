"""One conversation in one file: a header, then a line of JSON for each change, only ever appended.

    {"format":"amplifier-conversation","version":1}
    {"add":{"role":"user","content":"hello"}}
    {"set":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}
    {"clear":true}

A line is one write, and the change counts when it has ended; a write that fails is taken back. Lines that a crash cut
off at the end are put into a file beside it and reported; all before them count. A file that is damaged elsewhere, of a
newer version, or no such file at all is refused and left as it is. While it is open here it is locked.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from .file_settings import MODULE, Fsync

logger = logging.getLogger(__name__)

Messages = list[dict[str, Any]]

_FORMAT: Final = "amplifier-conversation"
_VERSION: Final = 1
_HEADER: Final = json.dumps({"format": _FORMAT, "version": _VERSION}, separators=(",", ":")).encode() + b"\n"
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK  # which a pipe would wait without
_LOCK_SECONDS: Final = 3.0  # a dead worker's lock is freed within milliseconds, except on a busy machine
_LOCK_POLL: Final = 0.02


class ConversationFileError(OSError):
    """The file cannot be used; the message contains the reason and a remedy."""


class _Line(NamedTuple):
    number: int
    start: int
    change: dict[str, Any] | None  # None: it is no whole change


class ConversationFile:
    """An open, locked file. Made by `opened`."""

    def __init__(self, path: Path, descriptor: int, fsync: Fsync) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        self._fsync = fsync
        self._end = 0  # where the last whole line ends
        self._is_torn = False  # something stands behind it that could not be taken back

    @classmethod
    async def opened(cls, path: Path, fsync: Fsync) -> tuple[ConversationFile, Messages]:
        """Open the file, making it and its folders if they are missing; return it with its conversation.

        Raises:
            ConversationFileError: another session has it open, its format or version is unknown, it is damaged, or the
                system refuses it.
        """
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, _FLAGS, 0o600)
        except OSError as error:
            raise _refused(
                path, f"cannot be opened: {error.strerror}; grant its folder or name another `path`"
            ) from error
        file = cls(path, descriptor, fsync)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _refused(path, "is no plain file; name another `path`")
            await _lock(path, descriptor)
            return file, file._load()
        except BaseException:
            os.close(descriptor)
            raise

    def append(self, change: dict[str, Any]) -> None:
        """Write a change; it counts when this returns.

        Raises:
            ConversationFileError: it cannot be written; the file's contents are unchanged.
        """
        if self._descriptor is None:
            raise _refused(self._path, "is closed, as the session has ended")
        line = json.dumps(change, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            self._take_back()
            self._is_torn = True
            _write(self._descriptor, line)
            if self._fsync == "always":
                os.fsync(self._descriptor)
        except OSError as error:
            try:
                self._take_back()
            except OSError:
                logger.debug("%s: %s keeps a torn line until the next write", MODULE, self._path, exc_info=True)
            raise _refused(self._path, f"cannot be written: {error.strerror}; the message was not stored") from error
        self._is_torn = False
        self._end += len(line)

    def close(self) -> None:
        """Sync the file to the disk, close it and unlock it. May be called again."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.fsync(descriptor)
        except OSError as error:
            logger.warning("%s: %s may not be on the disk: %s", MODULE, self._path, error.strerror)
        finally:
            os.close(descriptor)

    def _take_back(self) -> None:
        if self._is_torn and self._descriptor is not None:
            os.ftruncate(self._descriptor, self._end)
            self._is_torn = False

    def _load(self) -> Messages:
        descriptor = self._descriptor
        assert descriptor is not None
        size = os.fstat(descriptor).st_size
        with open(os.dup(descriptor), "rb") as file:
            header = file.readline(1024)
            if _HEADER.startswith(header) and header != _HEADER:  # empty, or the header alone was cut off
                os.ftruncate(descriptor, 0)
                _write(descriptor, _HEADER)
                self._end = len(_HEADER)
                _sync(descriptor, self._path.parent)
                return []
            _check_header(self._path, header)
            messages: Messages = []
            self._end = len(header)
            torn: _Line | None = None
            for line in _lines(file, len(header)):
                if line.change is None:
                    torn = torn or line
                elif torn is not None:
                    raise _refused(
                        self._path,
                        f"is damaged in line {torn.number}, and whole lines follow; nothing was changed: "
                        "mend or remove that line, or move the file away",
                    )
                else:
                    if "add" in line.change:
                        messages.append(line.change["add"])
                    else:
                        messages = line.change.get("set", [])
                    self._end = file.tell()
        if torn is not None:
            self._put_aside(descriptor, size)
        return messages

    def _put_aside(self, descriptor: int, size: int) -> None:
        """Move the text behind the last whole line to a file of its own."""
        torn = os.pread(descriptor, size - self._end, self._end)
        aside, name = _new_file_beside(self._path)
        try:
            _write(aside, torn)
            os.fsync(aside)
        finally:
            os.close(aside)
        os.ftruncate(descriptor, self._end)
        _sync(descriptor, self._path.parent)
        logger.warning(
            "%s: the last %d bytes of %s were cut off, as by a crash, and are now in %s; all before them counts",
            MODULE, len(torn), self._path, name,
        )  # fmt: skip


async def _lock(path: Path, descriptor: int) -> None:
    clock = asyncio.get_running_loop().time
    last = clock() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if clock() >= last:
                raise _refused(
                    path, "is open in another session; end that one, or give this one a `path` of its own"
                ) from None
        except OSError as error:
            raise _refused(path, f"cannot be locked: {error.strerror}; name a `path` on another file system") from error
        await asyncio.sleep(_LOCK_POLL)  # the system gives no notice of a free lock


def _check_header(path: Path, header: bytes) -> None:
    try:
        fields = json.loads(header)
        version = fields["version"] if fields["format"] == _FORMAT else None
    except (ValueError, LookupError, TypeError, RecursionError):
        version = None
    if not isinstance(version, int) or version < 1:
        raise _refused(path, "is no conversation; it was left as it is: name another `path`")
    if version > _VERSION:
        raise _refused(
            path,
            f"is of version {version}, and this module knows {_VERSION}; it was left as it is: "
            "update the module, or name another `path`",
        )


def _lines(file: Any, start: int) -> Iterator[_Line]:
    for number, line in enumerate(file, 2):
        yield _Line(number, start, _change(line))
        start += len(line)


def _change(line: bytes) -> dict[str, Any] | None:
    """Return the change that a line holds, None if it is cut off or holds none."""
    try:
        change = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(change, dict) or len(change) != 1:
        return None
    ((kind, what),) = change.items()
    messages = {"add": [what], "set": what, "clear": []}.get(kind)
    return change if isinstance(messages, list) and all(map(_is_message, messages)) else None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("role"))


def _new_file_beside(path: Path) -> tuple[int, Path]:
    number = 0
    while True:
        number += 1
        aside = path.with_name(f"{path.name}.torn-{number}")
        try:
            return os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), aside
        except FileExistsError:
            continue


def _write(descriptor: int, content: bytes) -> None:
    while content:  # a nearly full disk takes part of it
        content = content[os.write(descriptor, content) :]


def _sync(descriptor: int, folder: Path) -> None:
    """Bring a file that is new, or was cut, to the disk, its name included."""
    os.fsync(descriptor)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _refused(path: Path, problem: str) -> ConversationFileError:
    return ConversationFileError(f"{MODULE}: {path} {problem}")
