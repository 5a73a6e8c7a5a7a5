"""What one side tells the other about an object it hands out: its members and its plain data.

The position of a member in the list is its method number, so a call names nothing but numbers.
Descriptions are data from the other side: reading one is capped and strict, and builds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.errors import RemoteProtocolError

MAX_MEMBERS: Final = 256
_MAX_NAME: Final = 200  # characters; no identifier a person wrote is longer


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
    """Return the wire form of `description`."""
    members = [[member.name, int(member.flavour)] for member in description.members]
    content = [description.type_name, description.is_function, members, dict(description.attributes)]
    return codec.encode(content, live_objects=False)[0]


def decode_description(data: bytes, codec: Codec) -> Description:
    """Read the wire form.

    Raises:
        RemoteProtocolError: the data is no description.
    """
    match codec.decode(data):
        case [str() as type_name, bool() as is_function, list() as members, dict() as attributes] if len(
            members
        ) <= MAX_MEMBERS and _is_identifier(type_name):
            read = tuple(_read_member(member) for member in members)
            if all(_is_identifier(name) for name in attributes):
                return Description(type_name, read, attributes, is_function)
    raise RemoteProtocolError("an object's description that is none")


def _read_member(member: object) -> Member:
    match member:
        case [str() as name, int() as flavour] if _is_identifier(name) and flavour in (0, 1, 2):
            return Member(name, Flavour(flavour))
    raise RemoteProtocolError("a member of an object that is none")


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _MAX_NAME and name.isidentifier()
