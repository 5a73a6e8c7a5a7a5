"""What the kernel starts along with an executable file: the loader of a binary, the interpreter of a script.

Reads the few bytes that say so, never more than a bounded number, and takes nothing in them for granted: a program may
have been put there by anyone. A file that is neither has no company.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

_SCRIPT_LINE_BYTES: Final = 256  # as much of a first line as the kernel reads
_MAX_SEGMENTS: Final = 128  # a program has a dozen
_MAX_LOADER_BYTES: Final = 4096  # PATH_MAX
_PT_INTERP: Final = 3
_SEGMENT: Final = {1: ("IIIIIIII", 1, 4), 2: ("IIQQQQQQ", 2, 5)}  # by class: layout, places of offset and size
_TABLE: Final = {1: ("I", 28, "HH", 42), 2: ("Q", 32, "HH", 54)}  # where a header names its segments


def loader_of(path: Path) -> str | None:
    """Return the loader that an ELF binary asks for; None for one that stands alone, and for any other file."""
    with path.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:4] != b"\x7fELF" or header[4] not in _TABLE or header[5] not in (1, 2):
            return None
        order = "<" if header[5] == 1 else ">"
        offset_layout, offset_at, counts_layout, counts_at = _TABLE[header[4]]
        (table,) = struct.unpack_from(order + offset_layout, header, offset_at)
        size, count = struct.unpack_from(order + counts_layout, header, counts_at)
        layout, offset_place, size_place = _SEGMENT[header[4]]
        segment = struct.Struct(order + layout)
        if size != segment.size:
            return None
        for number in range(min(count, _MAX_SEGMENTS)):
            fields = _read_at(file.fileno(), segment.size, table + number * size)
            if len(fields) < segment.size:
                return None
            values = segment.unpack(fields)
            if values[0] == _PT_INTERP:
                name = _read_at(file.fileno(), min(values[size_place], _MAX_LOADER_BYTES), values[offset_place])
                return os.fsdecode(name.split(b"\0", 1)[0]) or None
    return None


def script_line_of(path: Path) -> tuple[str, ...]:
    """Return the words after `#!` in the first line of a script; none for any other file."""
    with path.open("rb") as file:
        line = file.read(_SCRIPT_LINE_BYTES)
    if not line.startswith(b"#!"):
        return ()
    return tuple(os.fsdecode(word) for word in line[2:].split(b"\n", 1)[0].split())


def _read_at(fd: int, size: int, offset: int) -> bytes:
    # Beyond what the kernel takes for an offset there is nothing to read.
    return os.pread(fd, size, offset) if offset < 1 << 63 else b""
