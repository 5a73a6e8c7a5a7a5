"""The layout of one frame, independent of the order in which frames may come.

A frame is a fixed header, a table of handles and an opaque body. All numbers are big-endian. Every kind of frame has
the same fields, so that one struct reads them all and a router never needs to look behind the header. The kinds are
different types, by which receivers distinguish them. Nothing here keeps state.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from paddock_sdk.protocol.errors import LocalProtocolError, RemoteProtocolError

__all__ = [
    "Frame",
    "Kind",
    "Flag",
    "HandleEntry",
    "HandleSide",
    "Hello",
    "Welcome",
    "Request",
    "Response",
    "Failure",
    "Notify",
    "Cancel",
    "Item",
    "Credit",
    "Mirror",
    "Release",
    "Goodbye",
    "Discarded",
    "PROTOCOL_VERSION",
    "MAX_FRAME_BYTES",
    "MAX_HANDLES",
    "MAX_DEPTH",
    "MAX_ELEMENTS",
]

PROTOCOL_VERSION: Final = 1

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024  # a 16 MiB message is already more than a model reads
MAX_HANDLES: Final = 1024  # handles in one frame; a session with every known module mounts fewer than 100
MAX_DESCRIPTION_BYTES: Final = 256 * 1024  # one object's description, JSON schema included
MAX_DESCRIPTION_VALUES: Final = 4096  # values in one; a large JSON schema has a few hundred
MAX_DESCRIBED_BYTES: Final = 2 * 1024 * 1024  # descriptions in one frame; every known tool's together take a tenth
MAX_DEPTH: Final = 64  # nested containers in a body; well inside Python's recursion limit
MAX_ELEMENTS: Final = 1 << 18  # values in a body; 16 MiB of empty maps would else become 1 GiB of objects

JOIN_BELOW_BYTES: Final = 64 * 1024  # above this, one more write costs less than one more copy

Buffer = bytes | bytearray | memoryview


class Kind(IntEnum):
    """The purpose of a frame; the byte after the length."""

    DISCARDED = 0  # never on the wire: see `Discarded`
    HELLO = 1
    WELCOME = 2
    REQUEST = 3
    RESPONSE = 4
    FAILURE = 5
    NOTIFY = 6
    CANCEL = 7
    ITEM = 8
    CREDIT = 9
    MIRROR = 10
    RELEASE = 11
    GOODBYE = 12


class Flag(IntFlag):
    """Bits that qualify a request."""

    NONE = 0
    IN_PLACE = 1  # the callee is a plain function: it may run inside a blocked receiver
    BLOCKED = 2  # the caller's loop stands still until the reply is there
    STREAM = 4  # the reply is a series of items, then a response


class HandleSide(IntEnum):
    """Where the object behind a handle lives, seen from the sender of the frame."""

    SENDER = 0  # the sender's own object, under an id the sender chose
    RECEIVER = 1  # the receiver's object, or one it is keeper of, under the id the receiver chose


class HandleEntry(NamedTuple):
    """One row of a frame's handle table; bodies refer to rows by their position."""

    side: HandleSide | int
    id: int
    description: bytes = b""  # empty when the receiver has it already


class Frame(NamedTuple):
    """The fields that every frame of any kind has."""

    kind: int
    flags: int
    method: int
    id: int
    target: int
    parent: int
    deadline_ms: int
    handles: tuple[HandleEntry, ...]
    body: Buffer


class Hello(Frame):
    """The worker's first frame: its name and its protocol version."""

    __slots__ = ()


class Welcome(Frame):
    """The host's first frame: the session the worker is in."""

    __slots__ = ()


class Request(Frame):
    """A call of `method` on `target`, made while the caller was serving `parent` (0: none)."""

    __slots__ = ()


class Response(Frame):
    """The one good end of a call."""

    __slots__ = ()


class Failure(Frame):
    """The one bad end of a call; the body is an encoded exception."""

    __slots__ = ()


class Notify(Frame):
    """A call without an answer."""

    __slots__ = ()


class Cancel(Frame):
    """The caller no longer wants call `id`; it still gets its one end."""

    __slots__ = ()


class Item(Frame):
    """One item of the stream that call `id` answers with."""

    __slots__ = ()


class Credit(Frame):
    """Leave to send `target` more items on the stream of call `id`."""

    __slots__ = ()


class Mirror(Frame):
    """A change of shared state, to be applied before any later frame is looked at."""

    __slots__ = ()


class Release(Frame):
    """The sender dropped an object it was handed `target` times under id `id`."""

    __slots__ = ()


class Goodbye(Frame):
    """The sender will start nothing new and is about to close."""

    __slots__ = ()


class Discarded(Frame):
    """The rest of an answer or item that came after its call was cancelled: the handles it brought.

    They count as handed over, so the receiver notes them and releases them again.
    """

    __slots__ = ()


def discarded(frame: Frame) -> Discarded:
    """Return the part of an unwanted answer or item that the receiver must still see."""
    return Discarded(Kind.DISCARDED, 0, 0, frame.id, 0, 0, 0, frame.handles, b"")


_TYPES: Final[tuple[type[Frame] | None, ...]] = (
    None,
    Hello,
    Welcome,
    Request,
    Response,
    Failure,
    Notify,
    Cancel,
    Item,
    Credit,
    Mirror,
    Release,
    Goodbye,
)

# length | kind flags method | id target parent deadline_ms | handles
_HEADER: Final = struct.Struct(">IBBHIIIIH")
_HANDLE: Final = struct.Struct(">BII")
LENGTH: Final = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size
_MIN_LENGTH: Final = HEADER_BYTES - LENGTH.size


class FrameParts(NamedTuple):
    """A large frame as two writes, to spare a copy of its body."""

    head: bytes
    body: Buffer


def encode_frame(
    kind: int,
    *,
    flags: int = 0,
    method: int = 0,
    id: int = 0,
    target: int = 0,
    parent: int = 0,
    deadline_ms: int = 0,
    handles: Sequence[HandleEntry] = (),
    body: Buffer = b"",
    max_frame_bytes: int = MAX_FRAME_BYTES,
) -> bytes | FrameParts:
    """Return the bytes of one frame; a large body is left uncopied in `Parts`.

    Raises:
        LocalProtocolError: the frame would be larger than the receiver accepts, or a number does not fit its field.
    """
    table = _encode_handles(handles) if handles else b""
    length = _MIN_LENGTH + len(table) + len(body)
    if length + LENGTH.size > max_frame_bytes:
        raise LocalProtocolError(f"a frame of {length + LENGTH.size} bytes is over the limit of {max_frame_bytes}")
    try:
        head = _HEADER.pack(length, kind, flags, method, id, target, parent, deadline_ms, len(handles))
    except struct.error as exc:
        raise LocalProtocolError(f"a header with a number out of range: {exc}") from exc
    if len(body) < JOIN_BELOW_BYTES:
        return b"".join((head, table, body))
    return FrameParts(head + table, body)


def decode_frame(buffer: memoryview, start: int, end: int) -> Frame:
    """Read the frame that fills `buffer[start:end]`; the body of a small one is a copy.

    Raises:
        RemoteProtocolError: the frame is of an unknown kind, or its handle table does not fit in it.
    """
    _, kind, flags, method, id_, target, parent, deadline_ms, count = _HEADER.unpack_from(buffer, start)
    cls = _TYPES[kind] if kind < len(_TYPES) else None
    if cls is None:
        raise RemoteProtocolError(f"a frame of unknown kind {kind}")
    at = start + HEADER_BYTES
    handles: tuple[HandleEntry, ...] = ()
    if count:
        handles, at = _decode_handles(buffer, at, end, count)
    view = buffer[at:end]
    body: Buffer = bytes(view) if end - at < JOIN_BELOW_BYTES else view
    # Past the generated constructor, which would take the fields one by one: half the time, for every frame there is.
    frame: Frame = tuple.__new__(cls, (kind, flags, method, id_, target, parent, deadline_ms, handles, body))
    return frame


def _encode_handles(handles: Sequence[HandleEntry]) -> bytes:
    if len(handles) > MAX_HANDLES:
        raise LocalProtocolError(f"{len(handles)} handles in one frame; the limit is {MAX_HANDLES}")
    if sum(len(entry.description) for entry in handles) > MAX_DESCRIBED_BYTES:
        raise LocalProtocolError(f"objects' descriptions of more than {MAX_DESCRIBED_BYTES} bytes in one frame")
    parts: list[bytes] = []
    for side, id_, description in handles:
        if len(description) > MAX_DESCRIPTION_BYTES:
            raise LocalProtocolError(f"an object's description of {len(description)} bytes is over the limit")
        if not (0 <= side <= HandleSide.RECEIVER and 0 <= id_ <= 0xFFFFFFFF):
            raise LocalProtocolError(f"a handle on side {side} under id {id_}")
        parts.append(_HANDLE.pack(side, id_, len(description)))
        parts.append(description)
    return b"".join(parts)


def _decode_handles(buffer: memoryview, at: int, end: int, count: int) -> tuple[tuple[HandleEntry, ...], int]:
    if count > MAX_HANDLES:
        raise RemoteProtocolError(f"{count} handles in one frame; the limit is {MAX_HANDLES}")
    entries: list[HandleEntry] = []
    described = 0
    for _ in range(count):
        if at + _HANDLE.size > end:
            raise RemoteProtocolError("a handle table runs past the end of its frame")
        side, id_, size = _HANDLE.unpack_from(buffer, at)
        at += _HANDLE.size
        if side > HandleSide.RECEIVER:
            raise RemoteProtocolError(f"a handle on unknown side {side}")
        if size > MAX_DESCRIPTION_BYTES or at + size > end:
            raise RemoteProtocolError("a handle's description is over its limit or runs past the end of its frame")
        described += size
        if described > MAX_DESCRIBED_BYTES:
            raise RemoteProtocolError(f"objects' descriptions of more than {MAX_DESCRIBED_BYTES} bytes in one frame")
        entries.append(HandleEntry(side, id_, bytes(buffer[at : at + size])))
        at += size
    return tuple(entries), at
