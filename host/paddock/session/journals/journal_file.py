"""The file of a session's journal: framed records, to which one host appends at a time.

A file begins with `PADDOCKJ` and the version of the format. A record is the length of its body, the CRC-32 of what
follows up to the body's end, its kind, the time at which it was written (seconds since 1970), its body, and the length
once more, by which a reader finds the last records; files of version 1 lack that, and stay so. Reading stops at the
first record that is cut off or damaged: what follows it is moved into a file of its own beside it, and never skipped.
The file is for the user alone, and locked for as long as a host has it. It is text of modules and of people, so readers
treat it as untrusted.

A record that was appended is in the file system's hands when `append` returns: it outlives this process, and not a
power failure.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shlex
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

import anyio

from paddock.errors import KindError
from paddock.state_folder import open_own

MAGIC: Final = b"PADDOCKJ"
VERSION: Final = 2
RECORD_MAX: Final = 64 << 20  # bytes of one body; a message of a conversation has half of it at most
FILE_MAX: Final = 256 << 20  # bytes; a conversation is bounded by its context's memory, far below
UNFINISHED: Final = ".unfinished"  # the end of the name of a shorter file, until it is in the journal's place
_HEAD_SIZE: Final = len(MAGIC) + 1
_FRAME: Final = struct.Struct("<IIBd")
_LENGTH: Final = struct.Struct("<I")
_BEHIND: Final = {1: 0, VERSION: _LENGTH.size}  # bytes behind the body of a record, by the version of its file
_CHECKED: Final = 8  # bytes of a frame before what its checksum covers
_MISSING: Final = bytes(_FRAME.size)  # behind the last record; no record that was cut off begins so
_AT_ENDS: Final = 64 << 10  # bytes that are read of a file's beginning, and of its end, for a glance at it


class Kind(IntEnum):
    """The kinds of records. A reader passes over kinds that it does not know."""

    META = 1  # a host begins: the plan, its pins and its grants
    TURN = 2  # a prompt
    END = 3  # the outcome of a turn
    ADD = 4  # a call of the context that adds a message
    SET = 5  # a call that sets all messages
    CLEAR = 6  # one that removes them
    CALL = 7  # a call of a tool, before the tool hears of it
    RESULT = 8  # its answer, before the caller hears of it; without a body, the call ended without one
    STATE = 9  # a key of `session_state`
    SPAWN = 10  # the journal is a sub-session's
    OVER = 11  # its host has ended the session


class Record(NamedTuple):
    """One record; it is a tuple, because one is made for every message."""

    kind: int
    at: float
    body: bytes


class JournalError(KindError):
    """Raised for a file that is no journal, or that cannot be used as one; by default it is to be removed."""

    def __init__(self, path: Path, problem: str, hint: str = "") -> None:
        hint = hint or f"remove it: `{shlex.join(['rm', '-r', str(path)])}`"
        super().__init__("JournalError", f"`{path}` cannot be used as a session's journal: {problem}", hints=[hint])


class JournalInUseError(OSError):
    """Raised for a journal that another host writes."""


class JournalFile:
    """A journal that this host alone writes; `close` releases it."""

    def __init__(self, path: Path, descriptor: int, size: int, version: int) -> None:
        self.path = path
        self.size = size
        self._descriptor = descriptor
        self._version = version

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make a new journal.

        Raises:
            FileExistsError: there is one.
            OSError: it cannot be made.
        """
        return cls(path, _made(path, VERSION), _HEAD_SIZE, VERSION)

    @classmethod
    def open(cls, path: Path) -> tuple[Self, list[Record], Path | None]:
        """Return a journal to go on with, its records, and the file to which its damaged end was moved.

        Raises:
            FileNotFoundError: there is none.
            JournalInUseError: another host writes it.
            JournalError: it is none.
            OSError: it cannot be read or mended.
        """
        descriptor = _opened(path, os.O_RDWR | os.O_APPEND)
        try:
            _lock(descriptor, path)
            records, end, size, version = _read(descriptor, path)
            torn = None
            if end < size:
                torn = _set_aside(descriptor, path, end)
                os.ftruncate(descriptor, end)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, end, version), records, torn

    def append(self, kind: Kind, body: bytes) -> None:
        """Add a record at the end.

        Raises:
            OSError: there is no room for all of it; then nothing of it is kept.
        """
        frame = _framed(kind, time.time(), body, self._version)
        if self.size + len(frame) + len(_MISSING) > FILE_MAX:
            raise OSError(f"the journal would take more than {FILE_MAX >> 20} MiB")
        try:
            _write(self._descriptor, frame)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(frame)

    def mark_missing(self) -> None:
        """Have readers find that something is missing at the end; this takes no room.

        Where the file may not grow at all, as beyond `ulimit -f`, it costs the last record.
        """
        for size in (self.size + len(_MISSING), self.size - 1):
            with suppress(OSError):
                os.ftruncate(self._descriptor, size)
                return

    async def rewrite(self, still_counting: Callable[[list[Record]], Iterable[Record]]) -> None:
        """Have what still counts of the records in place of all, in one step.

        They are read and written on a thread. What is appended meanwhile follows them. It must not be cancelled.

        Raises:
            OSError: they cannot be written; then the file is as it was.
        """
        unfinished = self.path.with_suffix(UNFINISHED)
        descriptor, end = await anyio.to_thread.run_sync(self._written_anew, unfinished, still_counting)
        try:
            if end < self.size:
                _write(descriptor, os.pread(self._descriptor, self.size - end, end))
                os.fsync(descriptor)
            os.replace(unfinished, self.path)
        except BaseException:
            _discard(descriptor, unfinished)
            raise
        earlier, self._descriptor = self._descriptor, descriptor
        self.size = os.fstat(descriptor).st_size
        await anyio.to_thread.run_sync(os.close, earlier)  # which frees all its blocks

    def _written_anew(
        self, unfinished: Path, still_counting: Callable[[list[Record]], Iterable[Record]]
    ) -> tuple[int, int]:
        """Return the descriptor of a new file, and the place up to which this one was read for it."""
        records, end, _, version = _read(self._descriptor, self.path)
        unfinished.unlink(missing_ok=True)
        descriptor = _made(unfinished, version)
        try:
            for record in still_counting(records):
                _write(descriptor, _framed(record.kind, record.at, record.body, version))
            os.fsync(descriptor)
        except BaseException:
            _discard(descriptor, unfinished)
            raise
        return descriptor, end

    async def sync(self) -> None:
        """Have all that was appended outlive a power failure; a thread waits for the disk.

        Raises:
            OSError: it may not.
        """
        # A descriptor of its own: `rewrite` and `close` may close the other one meanwhile.
        await anyio.to_thread.run_sync(_sync, os.dup(self._descriptor))

    def close(self) -> None:
        """Release the journal."""
        os.close(self._descriptor)
        self._descriptor = -1  # a late write gets an error, and no other file


def read_journal(path: Path) -> tuple[list[Record], bool, bool]:
    """Return the records of a journal, whether something is missing at its end, and whether a host writes it.

    Nothing is changed.

    Raises:
        FileNotFoundError: there is none.
        JournalError: it is none.
        OSError: it cannot be read.
    """
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        in_use = _is_in_use(file)
        records, end, size, _ = _read(file.fileno(), path)
        # Where a host writes it, a record may be on its way.
        is_cut = end < size and (not in_use or os.pread(file.fileno(), len(_MISSING), end) == _MISSING)
        return records, is_cut, in_use


def read_ends(path: Path) -> tuple[list[Record], list[Record], bool]:
    """Return the first records of a journal, up to the first turn, its last ones, and whether a host writes it.

    Of each, 64 KiB are read at most, and no record is among both. Where none is among the last, the file ends with a
    large record or a damaged one, or it is of version 1.

    Raises:
        FileNotFoundError: there is none.
        JournalError: it is none.
        OSError: it cannot be read.
    """
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        in_use = _is_in_use(file)
        if _version_of(file, path) != VERSION:
            return [], [], in_use
        size = os.fstat(file.fileno()).st_size
        first, end = [], _HEAD_SIZE
        for record, after in _frames(file, end, min(size, _AT_ENDS), VERSION):
            first.append(record)
            end = after
            if record.kind == Kind.TURN:
                break
        start = max(end, size - _AT_ENDS)
        return first, _last(os.pread(file.fileno(), size - start, start), is_rest=start == end), in_use


def _is_in_use(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)  # so that a host may open it meanwhile
    return False


def _framed(kind: int, at: float, body: bytes, version: int) -> bytes:
    if len(body) > RECORD_MAX:
        raise OSError(f"a record of {len(body)} bytes is over the {RECORD_MAX >> 20} MiB that one may have")
    checked = struct.pack("<Bd", kind, at) + body
    length = _LENGTH.pack(len(body))
    return length + _LENGTH.pack(zlib.crc32(checked)) + checked + length[: _BEHIND[version]]


def _made(path: Path, version: int) -> int:
    """Return the descriptor of a new file, which has its head, and is locked."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        _lock(descriptor, path)
        _write(descriptor, MAGIC + bytes([version]))
    except BaseException:
        _discard(descriptor, path)
        raise
    return descriptor


def _opened(path: Path, flags: int) -> int:
    try:
        return open_own(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise JournalError(path, error.strerror or str(error)) from error


def _sync(descriptor: int) -> None:
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _discard(descriptor: int, path: Path) -> None:
    os.close(descriptor)
    with suppress(OSError):
        path.unlink()


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(path, follow_symlinks=False).st_ino:
            return  # else its host has just put another file in its place
    except BlockingIOError:
        pass
    raise JournalInUseError(errno.EBUSY, os.strerror(errno.EBUSY), path)


def _write(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    if written < len(data):
        raise OSError("there was no room for all of a record")


def _read(descriptor: int, path: Path) -> tuple[list[Record], int, int, int]:
    """Return the records, where the last whole one ends, the size of the file, and the version of its format."""
    size = os.fstat(descriptor).st_size
    if size > FILE_MAX:
        raise JournalError(path, f"it has more than {FILE_MAX >> 20} MiB")
    records: list[Record] = []
    end = _HEAD_SIZE
    with os.fdopen(os.dup(descriptor), "rb") as file:
        version = _version_of(file, path)
        for record, after in _frames(file, end, size, version):
            records.append(record)
            end = after
    return records, end, size, version


def _version_of(file: BinaryIO, path: Path) -> int:
    """Return the version of a file's format, and have the file at its first record."""
    file.seek(0)
    head = file.read(_HEAD_SIZE)
    if head[: len(MAGIC)] != MAGIC or len(head) < _HEAD_SIZE:
        raise JournalError(path, "it does not begin as one")
    if head[-1] not in _BEHIND:
        problem = f"its format is version {head[-1]}, and this Paddock reads versions 1 to {VERSION}"
        raise JournalError(path, problem, "resume it with the Paddock that wrote it")
    return head[-1]


def _last(ending: bytes, *, is_rest: bool) -> list[Record]:
    """Return the records that are whole in the last bytes of a file; none if one of these is damaged.

    With `is_rest`, the bytes begin with a record.
    """
    start = len(ending)
    while start >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(ending, start - _LENGTH.size)
        before = start - _LENGTH.size - length - _FRAME.size
        if before < 0:
            break
        start = before
    if is_rest and start:
        return []
    found = [*_frames(io.BytesIO(ending[start:]), start, len(ending), VERSION)]
    return [record for record, _ in found] if found and found[-1][1] == len(ending) else []


def _frames(file: BinaryIO, start: int, size: int, version: int) -> Iterator[tuple[Record, int]]:
    """Yield the records of a file up to a size, with the end of each, until one is damaged; `file` is at `start`."""
    behind = _BEHIND[version]
    while len(frame := file.read(_FRAME.size)) == _FRAME.size:
        length, crc, kind, at = _FRAME.unpack(frame)
        start += _FRAME.size + length + behind
        if length > RECORD_MAX or start > size:
            return
        body = file.read(length)
        if len(body) < length or file.read(behind) != frame[:behind]:
            return
        if zlib.crc32(body, zlib.crc32(frame[_CHECKED:])) != crc:
            return
        yield Record(kind, at, body), start


def _set_aside(descriptor: int, path: Path, start: int) -> Path:
    """Move what follows the last whole record into a file of its own, and return that."""
    rest = os.pread(descriptor, FILE_MAX, start)
    number = 1
    while (torn := path.with_name(f"{path.stem}.torn-{number}")).exists():
        number += 1
    with open(torn, "xb", opener=open_own) as file:
        file.write(rest)
    return torn
