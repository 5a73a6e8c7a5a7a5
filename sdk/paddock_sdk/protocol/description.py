"""What one side tells the other about an object it hands out: its members and its plain data.

The position of a member in the list is its method number, so a call names nothing but numbers.
Descriptions are data from the other side: reading one is capped and strict, and builds nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from paddock_sdk.protocol.body import Codec, EncodeError
from paddock_sdk.protocol.errors import RemoteProtocolError
from paddock_sdk.protocol.frames import MAX_DESCRIPTION_BYTES

MAX_MEMBERS: Final = 256
_MAX_NAME: Final = 200  # characters; no identifier a person wrote is longer
_MAX_MAP_HEAD: Final = 4  # bytes that the head of a map of many entries takes more than that of an empty one


class Flavour(IntEnum):
    """How a member is called."""

    ASYNC = 0  # a coroutine function
    SYNC = 1  # a plain function
    STREAM = 2  # an asynchronous generator function


@dataclass(frozen=True, slots=True)
class Member:
    """A callable member of an object."""

    name: str
    flavour: Flavour


@dataclass(frozen=True, slots=True)
class Description:
    """The callable members of an object, by method number, and a snapshot of its plain data."""

    type_name: str
    members: tuple[Member, ...]
    attributes: Mapping[str, Any]
    is_function: bool = False

    def number_of(self, name: str) -> int | None:
        """Return the method number of member `name`, None if there is no such member."""
        return next((number for number, member in enumerate(self.members) if member.name == name), None)


def encode_description(description: Description, codec: Codec) -> bytes:
    """Return the wire form of `description`; data that is too large for one is left out, the largest first."""
    try:
        encoded = _encoded(description, description.attributes, codec)
        if len(encoded) <= MAX_DESCRIPTION_BYTES:
            return encoded
    except EncodeError:
        pass
    return _encoded(description, _what_fits(description, codec), codec)


def _encoded(description: Description, attributes: Mapping[str, Any], codec: Codec) -> bytes:
    members = [[member.name, int(member.flavour)] for member in description.members]
    content = [description.type_name, description.is_function, members, dict(attributes)]
    return codec.encode(content, live_objects=False)[0]


def _what_fits(description: Description, codec: Codec) -> dict[str, Any]:
    sizes: dict[str, int] = {}
    for name, value in description.attributes.items():
        with contextlib.suppress(EncodeError):
            sizes[name] = len(codec.encode({name: value}, live_objects=False)[0])
    room = MAX_DESCRIPTION_BYTES - len(_encoded(description, {}, codec)) - _MAX_MAP_HEAD
    fitting: set[str] = set()
    for name in sorted(sizes, key=lambda name: sizes[name]):
        room -= sizes[name]
        if room < 0:
            break
        fitting.add(name)
    return {name: value for name, value in description.attributes.items() if name in fitting}


def decode_description(data: bytes, codec: Codec) -> Description:
    """Read the wire form.

    Raises:
        RemoteProtocolError: the data is no description.
    """
    match codec.decode(data):
        case [str() as type_name, bool() as is_function, list() as members, dict() as attributes] if len(
            members
        ) <= MAX_MEMBERS and is_identifier(type_name):
            read = tuple(_read_member(member) for member in members)
            if all(is_public(name) for name in attributes):
                return Description(type_name, read, attributes, is_function)
    raise RemoteProtocolError("an object's description that is none")


def _read_member(member: object) -> Member:
    match member:
        case [str() as name, int() as flavour] if (is_public(name) or name == "__call__") and flavour in (0, 1, 2):
            return Member(name, Flavour(flavour))
    raise RemoteProtocolError("a member of an object that is none")


def is_identifier(name: object) -> bool:
    """Whether `name` can be the name of a class."""
    return isinstance(name, str) and len(name) <= _MAX_NAME and name.isidentifier()


def is_public(name: object) -> bool:
    """Whether `name` can be that of a member or of data: never one that means something to Python or a stand-in."""
    return is_identifier(name) and not str(name).startswith("_")
