"""Values to opaque message bodies and back, under caps that hold before anything is built.

A body is msgpack. What msgpack has no type for crosses as an extension from a closed list;
models and exceptions are left to the `Vocabulary`, live objects to the handle table. Decoding
bytes from anywhere yields a value or a `RemoteProtocolError`, nothing else, and costs memory in
proportion to the caps in `frames`. No class is ever looked up by a name from the wire here.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePath
from typing import Any, Final, Protocol
from uuid import UUID

import msgpack

from paddock_sdk.protocol.errors import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.frames import MAX_DEPTH, MAX_ELEMENTS, Buffer


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


_SCANNED_EXTENSIONS: Final = frozenset({Ext.MODEL, Ext.ERROR, Ext.TUPLE, Ext.SET, Ext.FROZENSET, Ext.SCALAR})
_MAX_INTEGER_DIGITS: Final = 1024  # far past any real number; int() of a long text takes quadratic time
_MAX_LOOSE_KEYS: Final = 1024  # keys that are not strings can be made to collide; this many are still harmless
_TRANSLATE_BELOW_BYTES: Final = 4096  # where counting candidate openers in one C call beats the exact scan

# Bytes that can open a container or an extension; any of them may also be part of something else.
_OPENERS: Final = bytes([*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xE0)])
_NOT_OPENERS: Final = bytes(byte for byte in range(256) if byte not in _OPENERS)


class Vocabulary(Protocol):
    """The models and exceptions that a body may carry."""

    def to_wire(self, value: object) -> tuple[int, object] | None:
        """Return the extension and its plain content for `value`, or None if it is no such value."""

    def from_wire(self, extension: int, content: Any) -> object:
        """Rebuild a value; raise ValueError for content that is none."""


class EncodeError(LocalProtocolError):
    """Raised when a value cannot cross: it says which, and what may."""


class Codec:
    """Encode and decode bodies; one per thread of use, as it reuses its packer."""

    __slots__ = ("_exported", "_packer", "_plain_extension", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary
        self._exported: list[object] | None = None
        self._packer = msgpack.Packer(default=self._default, strict_types=True)
        self._plain_extension = functools.partial(self._extension, ())

    def encode(self, value: object, *, live_objects: bool = True) -> tuple[bytes, list[object]]:
        """Return the body for `value`, and the live objects it refers to by position.

        Raises:
            EncodeError: something in `value` has no form on the wire.
        """
        exported: list[object] = []
        before, self._exported = self._exported, exported if live_objects else None
        try:
            return self._pack(value), exported
        finally:
            self._exported = before

    def decode(self, body: Buffer, objects: Sequence[object] = ()) -> Any:
        """Return the value of `body`, with `objects` in the places of its handles.

        Raises:
            RemoteProtocolError: the body is no value, or over a cap.
        """
        check_caps(body)
        hook = functools.partial(self._extension, objects) if objects else self._plain_extension
        return _unpack(body, hook)

    # -- encoding --------------------------------------------------------------------------

    def _pack(self, value: object) -> bytes:
        try:
            return self._packer.pack(value)  # type: ignore[no-any-return]
        except EncodeError:
            self._packer.reset()
            raise
        except (OverflowError, UnicodeEncodeError):
            self._packer.reset()
        except (ValueError, RecursionError) as exc:
            self._packer.reset()
            raise EncodeError(f"a value cannot be sent: {exc}") from exc
        try:
            return msgpack.packb(_tame(value), default=self._default, strict_types=True)  # type: ignore[no-any-return]
        except (ValueError, RecursionError) as exc:
            raise EncodeError(f"a value cannot be sent: {exc}") from exc

    def _nested(self, value: object) -> bytes:
        """Pack the content of an extension; the shared packer is busy with what is around it."""
        try:
            return msgpack.packb(value, default=self._default, strict_types=True)  # type: ignore[no-any-return]
        except (OverflowError, UnicodeEncodeError):
            return msgpack.packb(_tame(value), default=self._default, strict_types=True)  # type: ignore[no-any-return]

    def _default(self, value: Any) -> object:
        kind = type(value)
        if kind is tuple:
            return msgpack.ExtType(Ext.TUPLE, self._nested(list(value)))
        if self._vocabulary is not None:
            known = self._vocabulary.to_wire(value)
            if known is not None:
                return msgpack.ExtType(known[0], self._nested(known[1]))
        if kind is set or kind is frozenset:
            code = Ext.SET if kind is set else Ext.FROZENSET
            return msgpack.ExtType(code, self._nested(list(value)))
        scalar = _scalar(value)
        if scalar is not None:
            return msgpack.ExtType(Ext.SCALAR, self._nested(scalar))
        plain = _plain(value)
        if plain is not None:
            return plain
        if self._exported is None:
            raise EncodeError(
                f"a {kind.__module__}.{kind.__qualname__} cannot be sent here; "
                "send plain data (text, numbers, lists, mappings) or one of the contract's models"
            )
        self._exported.append(value)
        return msgpack.ExtType(Ext.HANDLE, (len(self._exported) - 1).to_bytes(4, "big"))

    # -- decoding --------------------------------------------------------------------------

    def _extension(self, objects: Sequence[object], code: int, data: bytes) -> object:
        if code == Ext.HANDLE:
            index = int.from_bytes(data, "big")
            if len(data) != 4 or index >= len(objects):
                raise RemoteProtocolError(f"a handle to row {index} of a table of {len(objects)}")
            return objects[index]
        if code == Ext.TEXT:
            return data.decode("utf-8", "surrogatepass")
        if code == Ext.INTEGER:
            if len(data) > _MAX_INTEGER_DIGITS:
                raise RemoteProtocolError(f"an integer of {len(data)} digits")
            return int(data)
        if code not in _SCANNED_EXTENSIONS:
            raise RemoteProtocolError(f"extension {code} is not part of the protocol")
        content = _unpack(data, functools.partial(self._extension, objects))
        if code == Ext.TUPLE and isinstance(content, list):
            return tuple(content)
        if code == Ext.SET and isinstance(content, list):
            return set(content)
        if code == Ext.FROZENSET and isinstance(content, list):
            return frozenset(content)
        if code == Ext.SCALAR:
            return _read_scalar(content)
        if self._vocabulary is None:
            raise RemoteProtocolError(f"extension {code} where only plain values are expected")
        return self._vocabulary.from_wire(code, content)


def _unpack(body: Buffer, hook: Callable[[int, bytes], object]) -> Any:
    try:
        return msgpack.unpackb(body, ext_hook=hook, object_pairs_hook=_mapping, strict_map_key=False)
    except RemoteProtocolError:
        raise
    except Exception as exc:  # msgpack, the hooks and the models raise many types; each means the same here
        raise RemoteProtocolError(f"a body that is no value: {type(exc).__name__}: {str(exc)[:200]}") from exc


def unpack_prefix(body: Buffer) -> tuple[Any, memoryview]:
    """Return the first plain value of a body, and the rest undecoded.

    Raises:
        RemoteProtocolError: there is no plain value at its start.
    """
    unpacker = msgpack.Unpacker(
        None, max_buffer_size=len(body), object_pairs_hook=_mapping, ext_hook=_no_extension, strict_map_key=True
    )
    try:
        unpacker.feed(body)
        first = unpacker.unpack()
    except Exception as exc:
        raise RemoteProtocolError(f"a body without a readable head: {type(exc).__name__}: {str(exc)[:200]}") from exc
    return first, memoryview(body)[unpacker.tell() :]


def check_caps(body: Buffer) -> None:
    """Raise RemoteProtocolError if `body` is nested too deep or holds too many values."""
    size = len(body)
    if size <= _TRANSLATE_BELOW_BYTES and len(bytes(body).translate(None, _NOT_OPENERS)) <= MAX_DEPTH:
        return  # fewer openers than levels allowed, and each value takes at least a byte
    _scan(body)


def _scan(body: Buffer) -> None:
    """Walk over a body without building it, counting values and open containers."""
    at, end, values = 0, len(body), 0
    open_until: list[int] = []  # per open container, the values it still expects
    while True:
        while open_until and open_until[-1] == 0:
            open_until.pop()
        if at >= end:
            return  # what is missing is the unpacker's to report
        if open_until:
            open_until[-1] -= 1
        values += 1
        if values > MAX_ELEMENTS:
            raise RemoteProtocolError(f"a body of more than {MAX_ELEMENTS} values")
        head = body[at]
        at += 1
        children = 0
        if head <= 0x7F or head >= 0xE0 or 0xC0 <= head <= 0xC3:
            continue
        if head <= 0x8F:
            children = 2 * (head & 0x0F)
        elif head <= 0x9F:
            children = head & 0x0F
        elif head <= 0xBF:
            at += head & 0x1F
        elif head <= 0xC6:  # bin 8, 16, 32
            width = 1 << (head - 0xC4)
            at += width + int.from_bytes(body[at : at + width], "big")
        elif head <= 0xC9:  # ext 8, 16, 32
            width = 1 << (head - 0xC7)
            length = int.from_bytes(body[at : at + width], "big")
            at += width
            if at < end and body[at] in _SCANNED_EXTENSIONS:
                at, children = at + 1, 1
            else:
                at += 1 + length
        elif head <= 0xD3:  # floats and integers
            at += (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)[head - 0xCA]
        elif head <= 0xD8:  # fixed-size ext
            if at < end and body[at] in _SCANNED_EXTENSIONS:
                at, children = at + 1, 1
            else:
                at += 1 + (1 << (head - 0xD4))
        elif head <= 0xDB:  # str 8, 16, 32
            width = 1 << (head - 0xD9)
            at += width + int.from_bytes(body[at : at + width], "big")
        else:  # array 16, 32, map 16, 32
            width = 2 if head in (0xDC, 0xDE) else 4
            children = int.from_bytes(body[at : at + width], "big") * (2 if head >= 0xDE else 1)
            at += width
        if children:
            open_until.append(children)
            if len(open_until) > MAX_DEPTH:
                raise RemoteProtocolError(f"a body nested deeper than {MAX_DEPTH}")


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise RemoteProtocolError("a mapping with the same key twice")
    if len(mapping) > _MAX_LOOSE_KEYS and not all(type(key) is str for key in mapping):
        raise RemoteProtocolError(f"a mapping of more than {_MAX_LOOSE_KEYS} keys that are not text")
    return mapping


def _no_extension(code: int, data: bytes) -> object:
    raise RemoteProtocolError(f"extension {code} where only plain values are expected")


def _scalar(value: object) -> list[str] | None:
    if isinstance(value, PurePath):
        return ["path", str(value)]
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, dt.datetime):
        return ["datetime", value.isoformat()]
    if isinstance(value, dt.date):
        return ["date", value.isoformat()]
    if isinstance(value, dt.time):
        return ["time", value.isoformat()]
    if isinstance(value, dt.timedelta):
        return ["timedelta", repr(value.total_seconds())]
    if isinstance(value, UUID):
        return ["uuid", str(value)]
    return None


_SCALARS: Final[dict[str, Callable[[str], object]]] = {
    "path": Path,
    "decimal": Decimal,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timedelta": lambda text: dt.timedelta(seconds=float(text)),
    "uuid": UUID,
}


def _read_scalar(content: Any) -> object:
    match content:
        case [str() as name, str() as text] if name in _SCALARS and len(text) <= 4096:
            return _SCALARS[name](text)
    raise RemoteProtocolError("a scalar of no known type")


def _plain(value: Any) -> object | None:
    """Return the builtin that a subclass of a builtin stands for; an enumeration stands for its value."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list):
        return list(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, set | frozenset):
        return msgpack.ExtType(Ext.SET, msgpack.packb(sorted(value, key=repr)))
    if isinstance(value, Enum) and type(value.value) in (str, int, float):
        return value.value  # type: ignore[no-any-return]
    return None


def _tame(value: Any, depth: int = 0) -> Any:
    """Copy plain data with the strings and integers that msgpack refuses replaced by extensions."""
    if depth > MAX_DEPTH:
        raise EncodeError(f"a value nested deeper than {MAX_DEPTH} cannot be sent")
    if type(value) is dict:
        return {_tame(key, depth + 1): _tame(item, depth + 1) for key, item in value.items()}
    if type(value) is list:
        return [_tame(item, depth + 1) for item in value]
    if type(value) is tuple:
        return tuple(_tame(item, depth + 1) for item in value)
    if type(value) is int and not -(1 << 63) <= value < (1 << 64):
        return msgpack.ExtType(Ext.INTEGER, str(value).encode("ascii"))
    if type(value) is str:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return msgpack.ExtType(Ext.TEXT, value.encode("utf-8", "surrogatepass"))
    return value
