"""Find the files that the kernel starts with an executable: a binary's loader and libraries, a script's interpreter.

Reads only the few bytes that name them, never more than a bounded number, and trusts none of them: anyone may have put
the program there. A file that is neither binary nor script yields nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

_ELF: Final = b"\x7fELF"
_SCRIPT_LINE_BYTES: Final = 256  # as much of a first line as the kernel reads
_MAX_SEGMENTS: Final = 128  # a program has a dozen
_MAX_LOADER_BYTES: Final = 4096  # PATH_MAX
_MAX_ENTRIES: Final = 1024  # of a dynamic section, which has some thirty
_MAX_NEEDED: Final = 128
_MAX_TEXT_BYTES: Final = 4096  # of one name of a library, or of one list of folders
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 1, 5, 15, 29
_SEGMENT: Final = {1: ("IIIIIIII", 1, 2, 4), 2: ("IIQQQQQQ", 2, 3, 5)}  # layout, places of offset, address and size
_TABLE: Final = {1: ("I", 28, "HH", 42), 2: ("Q", 32, "HH", 54)}  # where a header names its segments


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class SharedLibraries:
    """The libraries that a binary names, and the folders that the loader searches before the system's.

    Folders are as written: relative to the folder that the binary is started from, or absolute.
    """

    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def folders_from(self, origin: Path) -> Iterator[Path]:
        """Yield the folders for a binary that is started from the folder `origin`."""
        for folder in self.folders:
            text = folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(origin))
            if os.path.isabs(text) and "$" not in text and "\0" not in text:
                yield Path(os.path.normpath(text))


def open_plain_file(path: Path) -> BinaryIO:
    """Open a regular file to read, without waiting on a pipe that replaced it since it was examined.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    file = open(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no ordinary file", os.fspath(path))
    return file


def is_binary(path: Path) -> bool:
    """Return whether a file begins as an ELF binary does."""
    try:
        with open_plain_file(path) as file:
            return file.read(len(_ELF)) == _ELF
    except OSError:
        return False


def loader_of(path: Path) -> str | None:
    """Return the loader that an ELF binary asks for; None for one that stands alone, and for any other file."""
    with open_plain_file(path) as file:
        for segment in _segments(file):
            if segment.kind == _PT_INTERP:
                name = _read_at(file.fileno(), min(segment.size, _MAX_LOADER_BYTES), segment.offset)
                return os.fsdecode(name.split(b"\0", 1)[0]) or None
    return None


def libraries_of(path: Path) -> SharedLibraries:
    """Return the shared libraries that an ELF binary names; none for any other file."""
    with open_plain_file(path) as file:
        segments = tuple(_segments(file))
        dynamic = next((segment for segment in segments if segment.kind == _PT_DYNAMIC), None)
        if dynamic is None:
            return SharedLibraries()
        entries = tuple(_dynamic_entries(file, dynamic))
        table = next((_offset_of(value, segments) for tag, value in entries if tag == _DT_STRTAB), None)
        if table is None:
            return SharedLibraries()

        def texts(*tags: int) -> Iterator[str]:
            for tag, value in entries:
                if tag in tags:
                    text = _read_at(file.fileno(), _MAX_TEXT_BYTES, table + value).split(b"\0", 1)[0]
                    yield os.fsdecode(text)

        folders = tuple(folder for text in texts(_DT_RPATH, _DT_RUNPATH) for folder in text.split(":"))
        names = [name for name in texts(_DT_NEEDED) if name and "/" not in name][:_MAX_NEEDED]
        return SharedLibraries(tuple(names), folders)


def script_line_of(path: Path) -> tuple[str, ...]:
    """Return the words after `#!` in the first line of a script; none for any other file."""
    with open_plain_file(path) as file:
        line = file.read(_SCRIPT_LINE_BYTES)
    if not line.startswith(b"#!"):
        return ()
    return tuple(os.fsdecode(word) for word in line[2:].split(b"\n", 1)[0].split())


def _read_at(fd: int, size: int, offset: int) -> bytes:
    # The kernel accepts no larger offset, so there is nothing to read.
    return os.pread(fd, size, offset) if offset < 1 << 63 else b""


def _segments(file: BinaryIO) -> Iterator[_Segment]:
    header = file.read(64)
    if len(header) < 64 or header[:4] != _ELF or header[4] not in _TABLE or header[5] not in (1, 2):
        return
    order = _order_of(header)
    offset_layout, offset_at, counts_layout, counts_at = _TABLE[header[4]]
    (table,) = struct.unpack_from(order + offset_layout, header, offset_at)
    size, count = struct.unpack_from(order + counts_layout, header, counts_at)
    layout, offset_place, address_place, size_place = _SEGMENT[header[4]]
    segment = struct.Struct(order + layout)
    if size != segment.size:
        return
    for number in range(min(count, _MAX_SEGMENTS)):
        fields = _read_at(file.fileno(), segment.size, table + number * size)
        if len(fields) < segment.size:
            return
        values = segment.unpack(fields)
        yield _Segment(values[0], values[offset_place], values[address_place], values[size_place])


def _order_of(header: bytes) -> str:
    return "<" if header[5] == 1 else ">"


def _dynamic_entries(file: BinaryIO, dynamic: _Segment) -> Iterator[tuple[int, int]]:
    header = _read_at(file.fileno(), 6, 0)
    entry = struct.Struct(_order_of(header) + ("II" if header[4] == 1 else "QQ"))
    section = _read_at(file.fileno(), min(dynamic.size, _MAX_ENTRIES * entry.size), dynamic.offset)
    for tag, value in entry.iter_unpack(section[: len(section) // entry.size * entry.size]):
        if tag == 0:
            return
        yield tag, value


def _offset_of(address: int, segments: tuple[_Segment, ...]) -> int | None:
    """Return where in the file an address of the loaded program is."""
    for segment in segments:
        if segment.kind == _PT_LOAD and segment.address <= address < segment.address + segment.size:
            return segment.offset + address - segment.address
    return None
