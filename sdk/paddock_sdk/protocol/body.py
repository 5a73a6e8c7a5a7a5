"""Values to opaque message bodies and back, under caps that hold before anything is built.

A body is msgpack. Types that msgpack lacks cross as extensions from a closed list; models and exceptions are left to
the `Vocabulary`, live objects to the handle table. Decoding bytes from anywhere yields a value or a
`RemoteProtocolError`, nothing else, and costs memory in proportion to the caps in `frames`. No class is ever looked up
here by a name in a message.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Final, Protocol
from uuid import UUID

import msgpack

from paddock_sdk.protocol.caps import MAX_LOOSE_KEYS, SCANNED_EXTENSIONS, Ext, check_caps, end_of_value, fits_inside
from paddock_sdk.protocol.errors import LocalProtocolError, RemoteProtocolError, UnfitValueError
from paddock_sdk.protocol.frames import MAX_DEPTH, MAX_ELEMENTS, MAX_HANDLES, Buffer

NO_OBJECT: Final = object()
"""Stands in the place of an object that a body refers to, where only data may stand."""

_EXTENSIONS: Final = frozenset(map(int, Ext))
_COLLECTIONS: Final[dict[int, Callable[[list[Any]], object]]] = {
    Ext.TUPLE: tuple,
    Ext.SET: set,
    Ext.FROZENSET: frozenset,
}
_MAX_INTEGER_DIGITS: Final = 1024  # far past any real number; int() of a long text takes quadratic time
_MAX_SCALAR_CHARACTERS: Final = 4096  # the longest path there is
_MAX_DECIMAL_EXPONENT: Final = 6144  # IEEE 754's widest; the integer behind a few characters more fills all memory
_SHOWN_ERRORS: Final = 20  # of one model
_REASON: Final = 200  # characters of why a value is refused
_LONG_BYTES: Final = 4096  # a short body has too few mappings for a second writing to pay
_SECOND_WRITING_BYTES: Final = 256 * 1024  # most of a longer body is one text, which takes longer to copy than to read
_KEPT_PACKER_BYTES: Final = 64 * 1024  # a packer's memory never shrinks, so one that packed more is not used again
_TOO_DEEP: Final = f"a value that is nested deeper than {MAX_DEPTH}, or holds itself, cannot be sent"
_PACKERS_DEPTH: Final = "recursion limit exceeded"  # msgpack's text for it, as a ValueError


class Record(dict[str, Any]):
    """Fields by name, also as attributes.

    A module's own pydantic model, or a data class where only data is allowed, arrives as one of these. It is a mapping,
    so it can be dumped, validated and subscripted, and its fields read as attributes as on the original object. Fields
    named as a dict's own methods (`items`, `get`) are reached by subscript alone.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no field '{name}' in what is left of the object", name=name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        self.__getattr__(name)  # raises the error if it does not exist
        del self[name]


class Vocabulary(Protocol):
    """The models and exceptions that a body may carry."""

    def to_wire(self, value: object) -> tuple[int, object] | None:
        """Return the extension and its plain content for `value`, or None if it is no such value."""

    def to_data(self, value: object) -> tuple[int, object] | None:
        """Do the same for an object that is not to cross as a live one, if it is made of data."""

    def from_wire(self, extension: int, content: Any) -> object:
        """Rebuild a value; raise ValueError for invalid content."""


class EncodeError(LocalProtocolError):
    """Raised when a value cannot cross: it names the value, and an alternative."""


class NoFormError(EncodeError):
    """Raised when a value is of a class that has no form on the wire, however much of it there is."""


MayGoLive = Callable[[object], bool]
"""Return whether an object without a form of its own may cross as a live one rather than as data, if it has any.

Raises NoFormError for one that may not cross at all.
"""


class Codec:
    """Encode and decode bodies; one per thread of use, as it reuses its packer."""

    __slots__ = ("_exported", "_may_go_live", "_packers", "_plain_extension", "_taming", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary
        self._exported: list[object] | None = None
        self._may_go_live: MayGoLive | None = None
        self._taming = False
        self._packers: list[msgpack.Packer] = []
        self._plain_extension = functools.partial(self._extension, ())

    def encode(self, value: object, *, live_objects: bool | MayGoLive = True) -> tuple[bytes, list[object]]:
        """Return the body for `value`, and the live objects it refers to by position.

        Raises:
            EncodeError: something in `value` has no form on the wire, or its body is over a cap.
        """
        exported: list[object] = []
        before = self._exported, self._may_go_live
        self._exported = exported if live_objects else None
        self._may_go_live = None if isinstance(live_objects, bool) else live_objects
        try:
            try:
                body = self._pack(value)
            except UnicodeEncodeError:
                exported.clear()
                body = self._pack_tamed(value)
            large_mappings: list[int] = []
            check_caps(body, large_mappings)
            if large_mappings:
                _check_keys(body)
        except EncodeError:
            raise
        except RecursionError as exc:
            raise EncodeError(_TOO_DEEP) from exc
        except Exception as exc:  # a value may be of any class, and raise anything when it is looked at
            if _PACKERS_DEPTH in str(exc):
                raise EncodeError(_TOO_DEEP) from exc
            raise EncodeError(f"a value cannot be sent: {exc}") from exc
        finally:
            self._exported, self._may_go_live = before
        return body, exported

    def encode_shallow(self, value: object, levels: int) -> bytes | None:
        """Return the body of plain data that is surely under the caps inside of so many containers, None for any other.

        It is for data that becomes a part of other bodies.
        """
        try:
            body = self._pack(value)
        except Exception:  # `encode` raises the reason
            return None
        return body if fits_inside(body, levels) else None

    def decode(self, body: Buffer, objects: Sequence[object] = ()) -> Any:
        """Return the value of `body`, with `objects` in the places of its handles.

        Raises:
            RemoteProtocolError: the body is no value, or over a cap.
            UnfitValueError: it is one that no class accepts, or refers to an object where only data may stand.
        """
        check_caps(body)
        return _unpack(body, functools.partial(self._extension, objects) if objects else self._plain_extension)

    # -- encoding --------------------------------------------------------------------------

    def _pack_tamed(self, value: object) -> bytes:
        # Lone surrogates are rare enough to start again from the top, once, with every string looked at.
        self._taming = True
        try:
            return self._pack(value)
        finally:
            self._taming = False

    def _pack(self, value: object) -> bytes:
        """Pack with a packer of this level's own: those around it are in the middle of something."""
        if self._taming:
            value = _tame(value)
        packer = self._packers.pop() if self._packers else msgpack.Packer(default=self._default, strict_types=True)
        body: bytes = packer.pack(value)
        if len(body) <= _KEPT_PACKER_BYTES:
            self._packers.append(packer)
        return body

    def _default(self, value: Any) -> object:
        kind = type(value)
        if kind is tuple:
            return msgpack.ExtType(Ext.TUPLE, self._pack(list(value)))
        if kind is int:
            return _integer(value)
        if self._vocabulary is not None:
            known = self._vocabulary.to_wire(value)
            if known is not None:
                return msgpack.ExtType(known[0], self._pack(known[1]))
        if isinstance(value, tuple):
            return msgpack.ExtType(Ext.TUPLE, self._pack(list(value)))
        if isinstance(value, set | frozenset):
            if _is_loose(value):
                raise EncodeError(f"a set of more than {MAX_LOOSE_KEYS} values that are not text cannot be sent")
            code = Ext.SET if isinstance(value, set) else Ext.FROZENSET
            return msgpack.ExtType(code, self._pack(list(value)))
        scalar = _scalar(value)
        if scalar is not None:
            return msgpack.ExtType(Ext.SCALAR, self._pack(scalar))
        if isinstance(value, Enum):
            plain = _member_value(value)
            if type(plain) is tuple:
                return self._default(plain)
            return _tame(plain) if self._taming else plain
        plain = _plain(value)
        if plain is not None:
            return _tame(plain) if self._taming else plain
        return self._go_live(value)

    def _go_live(self, value: object) -> object:
        kind = type(value)
        if self._exported is None or (self._may_go_live is not None and not self._may_go_live(value)):
            data = self._vocabulary.to_data(value) if self._vocabulary is not None else None
            if data is not None:
                return msgpack.ExtType(data[0], self._pack(data[1]))
        if self._exported is None:
            raise NoFormError(
                f"a {kind.__module__}.{kind.__qualname__} cannot be sent here; "
                "send plain data (text, numbers, lists, mappings) or one of the contract's models"
            )
        if len(self._exported) == MAX_HANDLES:
            raise EncodeError(f"a value that refers to more than {MAX_HANDLES} live objects cannot be sent")
        self._exported.append(value)
        return msgpack.ExtType(Ext.HANDLE, (len(self._exported) - 1).to_bytes(4, "big"))

    # -- decoding --------------------------------------------------------------------------

    def _extension(self, objects: Sequence[object], code: int, data: bytes) -> object:
        if code in SCANNED_EXTENSIONS:
            inner = functools.partial(self._extension, objects) if objects else self._plain_extension
            return self._container(code, _unpack(data, inner))
        if code == Ext.HANDLE:
            if len(data) != 4:
                raise RemoteProtocolError(f"a handle of {len(data)} bytes")
            index = int.from_bytes(data, "big")
            if index >= len(objects):
                raise RemoteProtocolError(f"a handle to row {index} of a table of {len(objects)}")
            if objects[index] is NO_OBJECT:
                raise UnfitValueError("an object where only data may stand")
            return objects[index]
        if code == Ext.TEXT:
            return data.decode("utf-8", "surrogatepass")
        if code == Ext.INTEGER:
            if len(data) > _MAX_INTEGER_DIGITS:
                raise RemoteProtocolError(f"an integer of {len(data)} digits")
            return int(data)
        raise RemoteProtocolError(f"extension {code} is not part of the protocol")

    def _container(self, code: int, content: Any) -> object:
        if code in _COLLECTIONS:
            if type(content) is not list:
                raise RemoteProtocolError(f"extension {code} without a list in it")
            if code != Ext.TUPLE and _is_loose(content):
                raise RemoteProtocolError(f"a set of more than {MAX_LOOSE_KEYS} values that are not text")
            return _COLLECTIONS[code](content)
        try:
            if code == Ext.SCALAR:
                return _read_scalar(content)
            if self._vocabulary is not None:
                return self._vocabulary.from_wire(code, content)
        except (MemoryError, RemoteProtocolError):
            raise
        except Exception as exc:  # each class refuses in its own way
            raise UnfitValueError(f"a value that no class accepts: {_reason(exc)}") from exc
        raise UnfitValueError(f"extension {code} where only plain values are expected")


def _unpack(body: Buffer, hook: Callable[[int, bytes], object]) -> Any:
    if _LONG_BYTES <= len(body) <= _SECOND_WRITING_BYTES:
        with suppress(Exception):  # it is not so plain, or no value: reading it key by key tells
            plain = bytes(body)
            value = msgpack.unpackb(plain, ext_hook=_no_extension, strict_map_key=False, max_map_len=MAX_LOOSE_KEYS)
            # msgpack writes a value in one way, and a mapping once for each key. So what it writes again as the same
            # bytes has no key twice.
            if msgpack.packb(value) == plain:
                return value
    try:
        return msgpack.unpackb(body, ext_hook=hook, object_pairs_hook=_mapping, strict_map_key=False)
    except RemoteProtocolError:
        raise
    except Exception as exc:  # msgpack, the hooks and the models raise many types; each means the same here
        raise RemoteProtocolError(f"a body that is no value: {_reason(exc)}") from exc


def _reason(error: Any) -> str:
    """Return the beginning of an error's text, of a model's without the refused values, which are of any size."""
    if not hasattr(error, "error_count"):
        return f"{type(error).__name__}: {error}"[:_REASON]
    model, count = error.title, error.error_count()
    if count > _SHOWN_ERRORS:  # they would first be laid out in a hundred MB
        return f"{model}: {count} validation errors"
    told = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, (model, *one['loc'])))}: {one['msg']}" for one in told)[:_REASON]


def unpack_prefix(body: Buffer) -> tuple[Any, memoryview]:
    """Return the first plain value of a body, and the rest undecoded.

    Raises:
        RemoteProtocolError: there is no plain value at its start, or it is over a cap.
    """
    view = memoryview(body)
    end = end_of_value(view)
    return _unpack(view[:end], _no_extension), view[end:]


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    if len(pairs) > MAX_LOOSE_KEYS and _is_loose(pairs, keys=True):
        raise RemoteProtocolError(f"a mapping of more than {MAX_LOOSE_KEYS} keys that are not text")
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise RemoteProtocolError("a mapping with the same key twice")
    return mapping


def _is_loose(values: Collection[Any], *, keys: bool = False) -> bool:
    """Whether hashing `values`, or the first of each pair, may be made to take quadratic time."""
    if len(values) <= MAX_LOOSE_KEYS:
        return False
    return not all(type(value[0] if keys else value) in (str, bytes) for value in values)


def _check_keys(body: bytes) -> None:
    """Raise EncodeError for a mapping that every receiver would refuse; nothing is hashed for it."""

    def pairs(pairs: list[tuple[Any, Any]]) -> None:
        if _is_loose(pairs, keys=True):
            raise EncodeError(f"a mapping of more than {MAX_LOOSE_KEYS} keys that are not text cannot be sent")

    def content(code: int, data: bytes) -> object:
        if code in SCANNED_EXTENSIONS:
            msgpack.unpackb(data, ext_hook=content, object_pairs_hook=pairs, strict_map_key=False)
        return "" if code == Ext.TEXT else None

    content(Ext.TUPLE, body)


def _no_extension(code: int, data: bytes) -> object:
    refused = UnfitValueError if code in _EXTENSIONS else RemoteProtocolError
    raise refused(f"extension {code} where only plain values are expected")


def _scalar(value: object) -> list[str] | None:
    match value:
        case PurePath():
            name, text = "path", str(value)
        case Decimal():
            if not _is_ordinary(value):
                raise EncodeError(
                    f"a decimal number with an exponent past {_MAX_DECIMAL_EXPONENT}, or sNaN, cannot be sent"
                )
            name, text = "decimal", str(value)
        case dt.datetime():
            name, text = "datetime", value.isoformat()
        case dt.date():
            name, text = "date", value.isoformat()
        case dt.time():
            name, text = "time", value.isoformat()
        case dt.timedelta():
            name, text = "timedelta", str(value // _MICROSECOND)
        case UUID():
            name, text = "uuid", str(value)
        case _:
            return None
    if len(text) > _MAX_SCALAR_CHARACTERS:
        raise EncodeError(f"a {name} of {len(text)} characters cannot be sent; the limit is {_MAX_SCALAR_CHARACTERS}")
    return [name, text]


def _is_ordinary(number: Decimal) -> bool:
    """Whether converting a number takes time in proportion to its text, and comparing it never raises."""
    return not Decimal.is_snan(number) and abs(Decimal.adjusted(number)) <= _MAX_DECIMAL_EXPONENT


def _read_decimal(text: str) -> Decimal:
    number = Decimal(text)
    if not _is_ordinary(number):
        raise RemoteProtocolError(f"a decimal number with an exponent past {_MAX_DECIMAL_EXPONENT}, or sNaN")
    return number


_MICROSECOND: Final = dt.timedelta(microseconds=1)
SCALARS: Final[dict[str, Callable[[str], object]]] = {
    "path": Path,
    "decimal": _read_decimal,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timedelta": lambda text: dt.timedelta(microseconds=int(text)),
    "uuid": UUID,
}


def _read_scalar(content: Any) -> object:
    match content:
        case [str() as name, str() as text] if name in SCALARS:
            if len(text) > _MAX_SCALAR_CHARACTERS:
                raise RemoteProtocolError(f"a {name} of {len(text)} characters")
            return SCALARS[name](text)
    raise UnfitValueError("a scalar of no known type")


_LISTED: Final[tuple[type[Any], ...]] = (
    deque,
    range,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)  # types that cross as a list


def _plain(value: Any) -> object | None:
    """Return the builtin that stands for a subclass of a builtin, a view of one or another collection."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _integer(int(value))
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list):
        return list(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, MappingProxyType):
        return dict(value)
    if isinstance(value, _LISTED):
        if len(value) > MAX_ELEMENTS:
            raise EncodeError(f"a {type(value).__name__} of {len(value)} values cannot be sent")
        return list(value)
    return None


def _member_value(member: Enum) -> object:
    """Return the value to pack for a member of an enumeration."""
    inner = member.value
    if type(inner) is int:
        return _integer(inner)
    if inner is None or type(inner) in (str, bool, float, bytes, tuple, list, dict):
        return inner
    return str(member.name)


def _integer(value: int) -> object:
    """Return the number for msgpack to pack for `value`."""
    if -(1 << 63) <= value < (1 << 64):
        return value
    if value.bit_length() > 4 * _MAX_INTEGER_DIGITS or len(digits := str(value)) > _MAX_INTEGER_DIGITS:
        raise EncodeError(f"an integer of more than {_MAX_INTEGER_DIGITS} digits cannot be sent")
    return msgpack.ExtType(Ext.INTEGER, digits.encode("ascii"))


def _tame(value: Any, depth: int = 0) -> Any:
    """Copy plain data with the strings that msgpack refuses replaced by extensions."""
    if depth > MAX_DEPTH:
        raise EncodeError(_TOO_DEEP)
    if type(value) is dict:
        return {_tame(key, depth + 1): _tame(item, depth + 1) for key, item in value.items()}
    if type(value) is list:
        return [_tame(item, depth + 1) for item in value]
    if type(value) is str:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return msgpack.ExtType(Ext.TEXT, value.encode("utf-8", "surrogatepass"))
    return value
