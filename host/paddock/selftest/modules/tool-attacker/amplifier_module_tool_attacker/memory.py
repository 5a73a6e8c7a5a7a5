"""Attacks on leftovers in memory: a forked process begins with everything that its parent ever held."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator

from .descriptors import held, opened
from .raw_calls import declare
from .way import RefusedActError, Way

_CHUNK = 1 << 20  # bytes
_AROUND = 64 << 20  # bytes on either side of a known object
SHIFT = bytes((value + 1) % 256 for value in range(256))


def remember_what_others_were_told(shifted: str) -> Iterator[Way]:
    """Look for a text in its own memory.

    Each letter of it is given as the one after it, and memory is shifted likewise for the search: the search finds only
    copies that another part has left.
    """
    wanted = shifted.encode()
    yield "where its map says", lambda: found(mapped(), wanted)
    yield "around what it knows", lambda: found(guessed(), wanted)


def found(memory: Iterable[bytes], wanted: bytes) -> str:
    """Report that a text is in some pieces of memory; the pieces are given as they are, and the text shifted.

    Raises:
        RefusedError: it is not.
    """
    before = b""
    for piece in memory:
        seen = before + piece.translate(SHIFT)
        if wanted in seen:
            return "found"
        before = seen[-len(wanted) :]
    raise RefusedActError("ENOENT", "nothing is left of it")


def mapped() -> Iterator[bytes]:
    """Yield all memory that the kernel lists as mapped and readable."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        ranges = [line.split()[:2] for line in maps]
    with opened("/proc/self/mem") as memory:
        for place, rights in ranges:
            begin, end = (int(number, 16) for number in place.split("-"))
            for address in range(begin, end if rights.startswith("r") else begin, _CHUNK):
                try:
                    yield os.pread(memory, min(_CHUNK, end - address), address)
                except (OSError, OverflowError):
                    break  # the kernel's own pages


def guessed() -> Iterator[bytes]:
    """Yield the existing pages around the heap and some objects: a pipe accepts none from an unmapped address."""
    read, write = os.pipe()
    with held(read, write):
        for middle in (_sbrk(0), id(object()), ctypes.addressof(ctypes.create_string_buffer(_CHUNK))):
            first = (middle - _AROUND) // mmap.PAGESIZE * mmap.PAGESIZE
            for address in range(first, first + 2 * _AROUND, mmap.PAGESIZE):
                if _write(write, address, mmap.PAGESIZE) == mmap.PAGESIZE:
                    yield os.read(read, mmap.PAGESIZE)


_write = declare("write", ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_sbrk = declare("sbrk", ctypes.c_void_p, ctypes.c_ssize_t)
