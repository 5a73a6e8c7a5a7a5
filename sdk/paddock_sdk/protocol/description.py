"""The description that one side sends of an object it hands out: its members and its plain data.

The position of a member in the list is its method number, so a call names nothing but numbers. Descriptions are data
from the other side: reading one is capped and strict, and builds nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

import msgpack

from paddock_sdk.protocol.body import Codec, EncodeError
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.errors import RemoteProtocolError, UnfitValueError
from paddock_sdk.protocol.frames import MAX_DESCRIPTION_BYTES, MAX_DESCRIPTION_VALUES, Buffer

MAX_MEMBERS: Final = 256
SPECIAL_MEMBERS: Final = frozenset({"__call__", "__aenter__", "__aexit__", "__aiter__", "__anext__"})
"""Methods that Python calls by itself and that can be awaited, so that no caller blocks for them."""

_OF_CLASS: Final = 4  # added to the flavour of members that can be called on the class itself
_MAX_NAME: Final = 200  # characters; no identifier a person wrote is longer
_KEPT_MEMBERS: Final = 1024  # half a megabyte at most; all known modules together have fewer


class Flavour(IntEnum):
    """How a member is called."""

    ASYNC = 0  # a coroutine function
    SYNC = 1  # a plain function
    STREAM = 2  # an asynchronous generator function


@dataclass(frozen=True, slots=True)
class Member:
    """A callable member of an object, or of its class if it takes no object (class and static methods)."""

    name: str
    flavour: Flavour
    is_of_class: bool = False


@dataclass(frozen=True, slots=True)
class Description:
    """The callable members of an object, by method number, and a snapshot of its data.

    `attributes` are all values that reading from the object finds. The values of its class are in `class_attributes` as
    well. `properties` names the attributes that are computed when they are read.
    """

    type_name: str
    members: tuple[Member, ...]
    attributes: Mapping[str, Any]
    is_function: bool = False
    class_attributes: Mapping[str, Any] = field(default_factory=dict)
    properties: frozenset[str] = frozenset()

    def data_since(self, before: Description) -> tuple[dict[str, Any], list[str]] | None:
        """Return the added and the removed data; None if more than data differs."""
        if self != replace(before, attributes=self.attributes):
            return None
        known = before.attributes
        changed = {name: value for name, value in self.attributes.items() if name not in known or known[name] != value}
        return changed, [name for name in known if name not in self.attributes]

    def with_data(self, changed: Mapping[str, Any], gone: Iterable[str]) -> Description:
        """Return the description after changes of its data alone."""
        attributes = {**self.attributes, **changed}
        for name in gone:
            attributes.pop(name, None)
        return replace(self, attributes=attributes)

    def number_of(self, name: str) -> int | None:
        """Return the method number of member `name`, None if there is no such member."""
        return next((number for number, member in enumerate(self.members) if member.name == name), None)


def encode_description(description: Description, codec: Codec) -> bytes:
    """Return the wire form of `description`; data that is too large for one is left out, the largest first."""
    of_class = description.class_attributes
    own = {
        name: value
        for name, value in description.attributes.items()
        if name not in of_class or not _is_same(value, of_class[name])
    }
    try:
        encoded = _encoded(description, own, codec, of_class)
        if len(encoded) > MAX_DESCRIPTION_VALUES:
            check_description(encoded)
        return encoded
    except (EncodeError, RemoteProtocolError):
        return _with_what_fits(description, codec)


def _is_same(value: object, other: object) -> bool:
    return value is other or (type(value) is type(other) and repr(value) == repr(other))  # 1 equals True


def _encoded(
    description: Description, attributes: Mapping[str, Any], codec: Codec, class_attributes: Mapping[str, Any]
) -> bytes:
    members = [
        [member.name, int(member.flavour) + (_OF_CLASS if member.is_of_class else 0)] for member in description.members
    ]
    content = [
        description.type_name,
        description.is_function,
        members,
        dict(attributes),
        dict(class_attributes),
        sorted(description.properties),
    ]
    return codec.encode(content, live_objects=False)[0]


def _with_what_fits(description: Description, codec: Codec) -> bytes:
    weights: dict[str, int] = {}
    for name, value in description.attributes.items():
        with contextlib.suppress(EncodeError, RemoteProtocolError):
            data, _ = codec.encode({name: value}, live_objects=False)
            weights[name] = weight_of(data, MAX_DESCRIPTION_VALUES)
    by_weight = sorted(weights, key=lambda name: weights[name])
    least, most = 0, len(by_weight)
    fitting = _encoded(description, {}, codec, {})
    while least < most:  # as many of the lightest as there is room for
        count = (least + most + 1) // 2
        names = set(by_weight[:count])
        try:
            encoded = _encoded(
                description, {name: value for name, value in description.attributes.items() if name in names}, codec, {}
            )
            check_description(encoded)
        except (EncodeError, RemoteProtocolError):
            most = count - 1
        else:
            least, fitting = count, encoded
    return fitting


def check_description(data: Buffer) -> int:
    """Return the approximate memory that the wire form of a description takes, in bytes.

    Raises:
        RemoteProtocolError: it is over a cap.
    """
    if len(data) > MAX_DESCRIPTION_BYTES:
        raise RemoteProtocolError(f"an object's description of {len(data)} bytes")
    try:
        return weight_of(data, MAX_DESCRIPTION_VALUES)
    except RemoteProtocolError as exc:
        raise RemoteProtocolError(f"malformed object description: {exc}") from exc


def without_data(described: bytes) -> bytes:
    """Return the wire form of a description with the callable members, without the object's data.

    An invalid description becomes empty.
    """
    reader = msgpack.Unpacker()
    reader.feed(described)
    try:
        reader.read_array_header()
        what_it_is = [reader.unpack() for _ in range(3)]  # the type's name, whether it is a function, the members
    except (ValueError, msgpack.UnpackException):
        what_it_is = ["Object", False, []]
    bare: bytes = msgpack.packb([*what_it_is, {}, {}, []])
    return bare


def decode_description(data: bytes, codec: Codec) -> Description:
    """Read the wire form.

    Raises:
        RemoteProtocolError: the data is no description.
    """
    if len(data) > MAX_DESCRIPTION_VALUES:  # each takes a byte at least
        check_description(data)
    try:
        content = codec.decode(data)
    except UnfitValueError as exc:  # it is a part of a frame, and not of what the frame says
        raise RemoteProtocolError(f"malformed object description: {exc}") from exc
    match content:
        case [
            str() as type_name,
            bool() as is_function,
            list() as members,
            dict() as own,
            dict() as of_class,
            list() as properties,
        ] if len(members) <= MAX_MEMBERS and is_identifier(type_name):
            read = tuple([_read_member(member) for member in members])
            if all(is_public(name) for name in (*own, *of_class, *properties)):
                return Description(type_name, read, {**of_class, **own}, is_function, of_class, frozenset(properties))
    raise RemoteProtocolError("malformed object description")


def _read_member(member: object) -> Member:
    match member:
        case [str() as name, int() as code] if type(code) is int and len(name) <= _MAX_NAME:
            return _known_member(name, code)
    raise RemoteProtocolError("malformed object member")


@functools.lru_cache(maxsize=_KEPT_MEMBERS)  # the same few, each time that an object's data changes
def _known_member(name: str, code: int) -> Member:
    if is_public(name) or name in SPECIAL_MEMBERS:
        flavour = code & ~_OF_CLASS
        if flavour in (0, 1, 2):
            return Member(name, Flavour(flavour), bool(code & _OF_CLASS))
    raise RemoteProtocolError("malformed object member")


def is_identifier(name: object) -> bool:
    """Whether `name` can be the name of a class."""
    return isinstance(name, str) and len(name) <= _MAX_NAME and name.isidentifier()


def is_public(name: object) -> bool:
    """Whether `name` can be that of a member or of data: never one that means something to Python or a stand-in."""
    return is_identifier(name) and not str(name).startswith("_")
