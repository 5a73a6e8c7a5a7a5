"""The caps of a body, judged on its bytes before anything is built of them.

A body is walked over under the caps in `frames`: how deep it nests, how many values it has, how much its extensions
copy. What breaks one is a `RemoteProtocolError`; nothing else is raised, for bytes from anywhere, and the walk takes
time in proportion to the caps.
"""

from __future__ import annotations

import functools
from enum import IntEnum
from typing import Final

import msgpack

from paddock_sdk.protocol.errors import RemoteProtocolError
from paddock_sdk.protocol.frames import MAX_DEPTH, MAX_ELEMENTS, MAX_FRAME_BYTES, Buffer


class Ext(IntEnum):
    """The extension types of a body."""

    HANDLE = 1  # u32: a row of the frame's handle table
    MODEL = 2  # [name, fields]
    ERROR = 3  # an exception, as its `Vocabulary` writes it
    TUPLE = 4
    SET = 5
    FROZENSET = 6
    SCALAR = 8  # [type name, text]
    TEXT = 9  # a string with lone surrogates, as UTF-8 with "surrogatepass"
    INTEGER = 10  # an integer past 64 bits, in decimal


SCANNED_EXTENSIONS: Final = frozenset({Ext.MODEL, Ext.ERROR, Ext.TUPLE, Ext.SET, Ext.FROZENSET, Ext.SCALAR})
MAX_LOOSE_KEYS: Final = 1024  # values that are not text can be made to collide; this many are still harmless
MAX_EXTENSION_BYTES: Final = 4 * MAX_FRAME_BYTES  # all contents together; nested ones are copied at each level
_VALUE_BYTES: Final = 64  # of memory: an empty list and its place in another one, one byte on the wire
_WORTH: Final = {Ext.MODEL: 12, Ext.ERROR: 12, Ext.SET: 2, Ext.FROZENSET: 2}  # values more that one takes the memory of
_TRANSLATE_BELOW_BYTES: Final = 4096  # where counting candidate openers in one C call beats the exact scan
_NARROW: Final = bytes(range(0xC4))  # bytes that begin no character past Latin-1, in UTF-8
_RUN_BYTES: Final = 1024  # of small values that are judged at once; some messages, with few containers in them
_ENTERED_LEVELS: Final = 12  # each passes over the values inside again; a message's text lies eight levels deep
_WALKED_SHARE: Final = 16  # of a container that is walked over value by value, which takes long for small ones
_LIST_MIN: Final = 64  # elements of a list that is worth taking apart; a conversation
_ELEMENT_BYTES: Final = (
    2048  # of one whose count is kept: a longer one is mostly text, which is passed over in one step
)
_KEPT_COUNTS: Final = 2048  # elements; with their bytes 4 MiB at most
_ELEMENT_LEVELS: Final = 16
_TIMESTAMP: Final = 0xFF  # an extension that msgpack reads by itself, past every hook
_MAP_16, _MAP_32 = 0xDE, 0xDF

# Bytes that can open a container or an extension; any of them may also be part of something else.
_OPENERS: Final = bytes([*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)])
_NOT_OPENERS: Final = bytes(byte for byte in range(256) if byte not in _OPENERS)


def _size_after(head: int) -> int:
    """Return how many bytes follow a head that contains that number, -1 for the others."""
    if head <= 0x7F or head >= 0xE0 or head in (0x80, 0x90) or 0xC0 <= head <= 0xC3:
        return 0
    if 0xA0 <= head <= 0xBF:
        return head & 0x1F
    return (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)[head - 0xCA] if 0xCA <= head <= 0xD3 else -1  # floats and integers


_SIZES: Final = tuple(_size_after(head) for head in range(256))


def end_of_value(body: Buffer) -> int:
    """Return where the first value of a body ends.

    Raises:
        RemoteProtocolError: it is over a cap.
    """
    return _scan(body)[0]


def fits_inside(body: bytes, levels: int) -> bool:
    """Return whether a small body is surely under the caps inside of so many containers."""
    return (
        len(body) < _TRANSLATE_BELOW_BYTES
        and len(body.translate(None, _NOT_OPENERS)) + levels <= MAX_DEPTH
        and _TIMESTAMP not in body
    )


def check_caps(body: Buffer, large_mappings: list[int] | None = None) -> None:
    """Raise RemoteProtocolError if `body` is nested too deep, holds too many values, or is too costly to copy.

    The sizes of mappings whose keys are worth a closer look are added to `large_mappings`.
    """
    # Each value takes at least a byte, so a body of fewer bytes than values allowed needs no count of them; nor of the
    # contents of its extensions, which are copied once for each level.
    if len(body) <= MAX_ELEMENTS:
        data = bytes(body)
        # A key and its value take two bytes, and a mapping of more than 15 has a longer head.
        has_large = (
            large_mappings is not None and len(data) > 2 * MAX_LOOSE_KEYS and (_MAP_16 in data or _MAP_32 in data)
        )
        if not has_large and _TIMESTAMP not in data and _is_surely_shallow(data, MAX_DEPTH):
            return
    _scan(body, large_mappings)


def _is_surely_shallow(data: bytes, levels: int) -> bool:
    """Return whether a value surely nests no deeper than `levels`; a large one has all that it announces, too.

    msgpack's compiled code passes over a container's values, and one pass over their bytes counts what may open a
    container. Only large values are entered. Some values with too much of that are walked over; where there are many,
    the scan is left to do it in one go.
    """
    if len(data) <= _TRANSLATE_BELOW_BYTES:
        return len(data.translate(None, _NOT_OPENERS)) <= levels
    if levels < MAX_DEPTH - _ENTERED_LEVELS:
        return False
    unpacker = msgpack.Unpacker(max_buffer_size=len(data))
    unpacker.feed(data)
    head = data[0]
    try:
        if 0xC7 <= head <= 0xC9 or 0xD4 <= head <= 0xD8:
            extension = msgpack.unpackb(data)
            is_deeper = extension.code in SCANNED_EXTENSIONS
            return not is_deeper or (levels > 0 and _is_surely_shallow(extension.data, levels - 1))
        if 0x90 <= head <= 0x9F or 0xDC <= head <= 0xDD:
            children: int = unpacker.read_array_header()
        elif 0x80 <= head <= 0x8F or _MAP_16 <= head <= _MAP_32:
            children = 2 * unpacker.read_map_header()
        else:
            unpacker.skip()
            return True  # a long text
        to_walk = len(data) // _WALKED_SHARE
        start = last = unpacker.tell()
        for left in reversed(range(children)):
            unpacker.skip()
            end: int = unpacker.tell()
            is_large = end - last > _TRANSLATE_BELOW_BYTES
            stop = last if is_large else end
            if is_large or stop - start > _RUN_BYTES or not left:
                run = data[start:stop]
                if len(run.translate(None, _NOT_OPENERS)) >= levels:
                    to_walk -= len(run)
                    if to_walk < 0 or not _nests_less(run, levels):
                        return False
                if is_large and not _is_surely_shallow(data[last:end], levels - 1):
                    return False
                start = end
            last = end
    except (ValueError, msgpack.UnpackException, RemoteProtocolError):
        return False  # the scan, or msgpack itself, says what is wrong
    return levels > 0


def _nests_less(values: bytes, levels: int) -> bool:
    """Walk over values; return whether they nest less deep than `levels`, or raise that they do not."""
    at = 0
    while at < len(values):
        at += _scan(memoryview(values)[at:], max_depth=levels - 1)[0]
    return levels > 0


def weight_of(body: Buffer, max_values: int = MAX_ELEMENTS) -> int:
    """Return how much memory the value of a body takes at most, in bytes and roughly, without building it.

    Raises:
        RemoteProtocolError: it is over a cap, or has more than `max_values` values.
    """
    texts: list[memoryview] = []
    _, worth = _scan(memoryview(body), max_values=max_values, texts=texts)
    return len(body) + _VALUE_BYTES * worth + sum((_memory_of(text) - 1) * len(text) for text in texts)


def count_values(body: Buffer) -> int:
    """Return how many plain values take the time and memory that a body does, long texts aside, without building it.

    Raises:
        RemoteProtocolError: it is over a cap.
    """
    return _scan(body)[1]


def _memory_of(text: memoryview) -> int:
    """Return how many bytes of memory each byte of a text may take.

    A character takes as many as the widest one of the text needs. Text that is not ASCII keeps its bytes as well, once
    it was rewritten.
    """
    data = bytes(text)
    if data.isascii():
        return 1
    wide = data.translate(None, _NARROW)
    return 2 if not wide else 5 if max(wide) >= 0xF0 else 3


def _scan(
    body: Buffer,
    large_mappings: list[int] | None = None,
    max_values: int | None = None,
    texts: list[memoryview] | None = None,
    max_depth: int | None = None,
    is_plain: bool = False,
) -> tuple[int, int]:
    """Walk over the first value of a body without building it, under the caps; long texts are added to `texts`.

    With `is_plain`, an extension breaks a cap. Return where it ends, and how many plain values take the memory that it
    does. Containers count with the values they announce: msgpack allocates a list before it reads it.
    """
    max_values = MAX_ELEMENTS if max_values is None else max_values
    max_depth = MAX_DEPTH if max_depth is None else max_depth
    at, end, values, copied, more = 0, len(body), 1, 0, 0
    may_take_apart = texts is None and not is_plain
    expected = [1]  # values still to come: of the body itself, then of each open container
    while True:
        while expected[-1] == 0:
            expected.pop()
            if not expected:
                return min(at, end), values + more
        if at >= end:
            return end, values + more  # the unpacker reports missing bytes
        expected[-1] -= 1
        head = body[at]
        at += 1
        size = _SIZES[head]
        if size >= 0:
            at += size
            continue
        children = 0
        if head <= 0x9F:
            children = head & 0x0F if head >= 0x90 else 2 * (head & 0x0F)
        elif head <= 0xC6:  # bin 8, 16, 32
            width = 1 << (head - 0xC4)
            at += width + int.from_bytes(body[at : at + width], "big")
        elif head <= 0xC9 or 0xD4 <= head <= 0xD8:  # ext 8, 16, 32, or of a fixed size
            if head <= 0xC9:
                width = 1 << (head - 0xC7)
                length = int.from_bytes(body[at : at + width], "big")
                at += width
            else:
                length = 1 << (head - 0xD4)
            code = body[at] if at < end else 0
            at += 1
            if code == _TIMESTAMP or is_plain:
                raise RemoteProtocolError("a body with a timestamp of msgpack's own, or with what is not plain")
            if code in SCANNED_EXTENSIONS:
                children = 1
                more += _WORTH.get(code, 0)  # type: ignore[call-overload]
                copied += length
                if copied > MAX_EXTENSION_BYTES:
                    raise RemoteProtocolError(f"a body with extensions of more than {MAX_EXTENSION_BYTES} bytes")
            else:
                if code == Ext.TEXT and texts is not None:
                    texts.append(body[at : at + length])  # type: ignore[arg-type]
                at += length
        elif head <= 0xDB:  # str 8, 16, 32
            width = 1 << (head - 0xD9)
            length = int.from_bytes(body[at : at + width], "big")
            at += width
            if texts is not None and length > 0xFF:
                texts.append(body[at : at + length])  # type: ignore[arg-type]
            at += length
        else:  # array 16, 32, map 16, 32
            width = 2 if head in (0xDC, 0xDE) else 4
            children = int.from_bytes(body[at : at + width], "big")
            at += width
            if head >= _MAP_16:
                if children > MAX_LOOSE_KEYS and large_mappings is not None:
                    large_mappings.append(children)
                children *= 2
        if children:
            values += children
            if values > max_values:
                raise RemoteProtocolError(f"a body of more than {max_values} values")
            expected.append(children)
            if len(expected) > max_depth + 1:
                raise RemoteProtocolError(f"a body nested deeper than {max_depth}")
            if (
                may_take_apart
                and children >= _LIST_MIN
                and head <= 0xDD
                and len(expected) + _ELEMENT_LEVELS <= max_depth
            ):
                may_take_apart = False  # once, as it copies what is left of the body
                passed, taken, inside = _pass_elements(bytes(body[at:]), children)
                expected[-1] -= passed
                at += taken
                values += inside
                if values > max_values:
                    raise RemoteProtocolError(f"a body of more than {max_values} values")


def _pass_elements(data: bytes, children: int) -> tuple[int, int, int]:
    """Pass over the first plain elements of a list; return how many, their bytes, and the values inside of them.

    A conversation comes again with each request, so the counts of its messages are kept, by their bytes.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=len(data))
    unpacker.feed(data)
    passed = at = inside = 0
    try:
        for _ in range(children):
            unpacker.skip()
            end: int = unpacker.tell()
            is_short = end - at <= _ELEMENT_BYTES
            inside += (kept_count if is_short else _plain_count)(data[at:end]) - 1
            passed, at = passed + 1, end
    except (ValueError, msgpack.UnpackException, RemoteProtocolError):
        pass  # the walk goes on here, and says what is wrong
    return passed, at, inside


def _plain_count(element: bytes) -> int:
    large_mappings: list[int] = []
    _, values = _scan(element, large_mappings, max_depth=_ELEMENT_LEVELS, is_plain=True)
    if large_mappings:
        raise RemoteProtocolError("a large mapping, whose keys are looked at")
    return values


kept_count: Final = functools.lru_cache(_KEPT_COUNTS)(_plain_count)
