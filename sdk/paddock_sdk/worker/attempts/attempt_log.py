"""The last attempts of a worker's module, in memory that the worker shares with its host.

The host makes the memory and keeps a descriptor of it, so it can read the notes after the worker's end, however the
worker ended. The worker maps it before any code of the module runs and keeps no descriptor. Noting takes no lock and no
system call. Each attempt has a number and a slot of its own, and its number is written last, so that a slot that was
being written at the end counts as empty. Before the slots, a byte for each granted path says whether something in it
was opened. The module can write anything there: `read` takes any bytes, leaves out malformed entries and never raises
because of them.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import struct
from collections.abc import Iterable
from typing import Final, Literal

from paddock_sandbox.syscalls import call

Kind = Literal["read", "write", "run", "net", "left", "limit", "env", "serve"]
KINDS: Final[tuple[Kind, ...]] = ("read", "write", "run", "net", "left", "limit", "env", "serve")
MAX_TEXT_BYTES: Final = 1024  # of one attempt; a longer one is not noted

_INDEX: Final = {kind: index for index, kind in enumerate(KINDS)}
_SLOTS: Final = 256  # a call that fails does so soon after the attempt that made it fail
_FORKED_SLOTS: Final = 64  # of processes that the worker forked, which do not see its later notes
_FORKED: Final = 1 << 62  # the numbers of those begin here, each process at its own
_PASSED_ON: Final = struct.Struct("<Q")  # at the front: the number of the last attempt that the host was sent
_NUMBER: Final = struct.Struct("<Q")  # of a slot: 0 where it is empty
_FREE: Final = bytes(_NUMBER.size)
_HEAD: Final = struct.Struct("<QBH")  # of a slot: number, index of the kind, length of the text
_SLOT_BYTES: Final = _HEAD.size + MAX_TEXT_BYTES
MOST_PATHS: Final = 63  # granted paths, for reading and for writing each, in which something was opened
SOMEWHERE: Final = MOST_PATHS  # stands for a path that is not known
_PATHS: Final[dict[Kind, int]] = {"read": _PASSED_ON.size, "write": _PASSED_ON.size + MOST_PATHS + 1}
_FIRST_SLOT: Final = _PASSED_ON.size + 2 * (MOST_PATHS + 1)
SIZE: Final = _FIRST_SLOT + (_SLOTS + _FORKED_SLOTS) * _SLOT_BYTES

_SOCKET: Final[tuple[Kind, str]] = ("net", "")

Entry = tuple[int, Kind, str]
"""A number that counts up, a kind, and a text."""


class AttemptLog:
    """The attempts of this process, in `memory` of `SIZE` bytes that are all 0, or in memory of its own."""

    def __init__(self, memory: memoryview | None = None) -> None:
        self.last = 0  # the number of the latest attempt
        self._memory = memoryview(bytearray(SIZE)) if memory is None else memory
        self._next = itertools.count(1).__next__

    def go_on_as_fork(self) -> None:
        """Write later notes beside the worker's: this process was forked from it."""
        pid = os.getpid()
        self._next = itertools.count(_FORKED + (pid << 32) + pid % _FORKED_SLOTS).__next__

    def note(self, kind: Kind, text: str) -> None:
        """Note an attempt in the place of the earliest one; a text that is too long is left out.

        Raises:
            UnicodeEncodeError: the text has half characters in it.
        """
        data = text.encode()
        if len(data) > MAX_TEXT_BYTES:
            return
        number = self._next()
        place = _place_of(number)
        slot = _HEAD.pack(0, _INDEX[kind], len(data)) + data
        _NUMBER.pack_into(self._memory, place, 0)
        self._memory[place : place + len(slot)] = slot
        _NUMBER.pack_into(self._memory, place, number)
        self.last = number

    def after(self, number: int) -> list[Entry]:
        """Return the notes after attempt `number` that are still here, the earliest first."""
        first = max(number + 1, self.last - _SLOTS + 1, 1)
        found = (_entry(self._memory, _place_of(one)) for one in range(first, self.last + 1))
        return [entry for entry in found if entry is not None and entry[0] > number]

    def note_path(self, kind: Kind, place: int) -> None:
        """Note that something in the granted path at this place was opened, for reading or for writing."""
        self._memory[_PATHS[kind] + place] = 1

    def erase(self, number: int) -> None:
        """Take back an attempt that was none."""
        place = _place_of(number)
        if _NUMBER.unpack_from(self._memory, place) == (number,):
            _NUMBER.pack_into(self._memory, place, 0)

    def mark_passed_on(self, number: int) -> None:
        """Note that the host was sent all up to attempt `number`."""
        _PASSED_ON.pack_into(self._memory, 0, number)


def read(data: bytes) -> list[tuple[Kind, str]]:
    """Return kinds and texts of the attempts in a log that the host did not get yet, each once, the earliest first."""
    if len(data) != SIZE:
        return []
    (passed_on,) = _PASSED_ON.unpack_from(data)
    places = (place for place in range(_FIRST_SLOT, SIZE, _SLOT_BYTES) if not data.startswith(_FREE, place))
    entries = [entry for place in places if (entry := _entry(data, place)) is not None]
    left = [(kind, text) for number, kind, text in sorted(entries) if number > passed_on]
    return without_sockets(dict.fromkeys(left))


def opened_paths(data: bytes) -> dict[Kind, list[int]]:
    """Return the places of granted paths in which the module says that it opened something, by reading and writing."""
    if len(data) != SIZE:
        return {}
    return {kind: [place for place in range(MOST_PATHS + 1) if data[first + place]] for kind, first in _PATHS.items()}


def without_sockets(attempts: Iterable[tuple[Kind, str]]) -> list[tuple[Kind, str]]:
    """Leave out attempts known only by a socket, where their targets are known too."""
    known = list(attempts)
    leads_somewhere = any(kind == "net" and text for kind, text in known)
    return [one for one in known if one != _SOCKET] if leads_somewhere else known


def shared() -> AttemptLog:
    """Return the log that this process shares with its host, or one of its own without that."""
    return AttemptLog(_memories[-1] if _memories else None)


def share(descriptor: int) -> None:
    """Share the log behind a descriptor with the host, and close the descriptor.

    Raises:
        OSError: it cannot be mapped.
    """
    try:
        # Not by `mmap.mmap`, which keeps a descriptor of its own open.
        address = call("mmap", 0, SIZE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    _memories.append(memoryview(_Memory.from_address(address)).cast("B"))


_Memory: Final = ctypes.c_char * SIZE  # not made in each worker
_memories: Final[list[memoryview]] = []  # of this process: at most one


def _place_of(number: int) -> int:
    slot = number % _SLOTS if number < _FORKED else _SLOTS + number % _FORKED_SLOTS
    return _FIRST_SLOT + slot * _SLOT_BYTES


def _entry(memory: bytes | memoryview, place: int) -> Entry | None:
    number, kind, length = _HEAD.unpack_from(memory, place)
    if number == 0 or _place_of(number) != place or kind >= len(KINDS) or length > MAX_TEXT_BYTES:
        return None
    try:
        text = str(memory[place + _HEAD.size : place + _HEAD.size + length], "utf-8")
    except UnicodeDecodeError:
        return None
    return (number, KINDS[kind], text) if text.isprintable() else None
