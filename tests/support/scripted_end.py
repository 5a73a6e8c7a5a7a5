"""One end of a connection without what is usually behind it: what a test's scripted worker and scripted host share.

It speaks the real protocol through the real state machine and says exactly what a test tells it to. How bytes go out
and come in is for each end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import Connection, Frame, HandleEntry, HandleSide, Kind, Role
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.description import Description, Flavour, Member, decode_description, encode_description
from paddock_sdk.protocol.frames import FrameParts

ASYNC, SYNC, STREAM = Flavour.ASYNC, Flavour.SYNC, Flavour.STREAM


class Lent:
    """Stands, in a value that is sent, for the object of one row of the frame's handle table."""

    def __init__(self, entry: HandleEntry) -> None:
        self.entry = entry


class ScriptedEnd(ABC):
    """What is the same at both ends: objects, values and answers."""

    def __init__(self, role: Role) -> None:
        self.connection = Connection(role)
        self.codec = Codec(ContractVocabulary())
        self.frames: list[Frame] = []  # heard and not yet taken

    @abstractmethod
    def send(self, data: bytes | bytearray) -> None:
        """Send bytes to the other end."""

    # -- objects ---------------------------------------------------------------------------

    def describe(self, _members: dict[str, Flavour], _is_function: bool = False, **attributes: Any) -> bytes:
        """Return a description."""
        members = tuple(Member(name, flavour) for name, flavour in _members.items())
        return encode_description(Description("Thing", members, attributes, _is_function), self.codec)

    def own(self, id: int, _members: dict[str, Flavour] | None = None, **attributes: Any) -> Lent:
        """Return an object of this end, described."""
        return Lent(HandleEntry(HandleSide.SENDER, id, self.describe(_members or {}, **attributes)))

    def function(self, id: int, flavour: Flavour = ASYNC) -> Lent:
        """Return a function of this end, described."""
        return Lent(HandleEntry(HandleSide.SENDER, id, self.describe({"__call__": flavour}, True)))

    def again(self, id: int) -> Lent:
        """Return an object of this end that was described before."""
        return Lent(HandleEntry(HandleSide.SENDER, id))

    def foreign(self, id: int) -> Lent:
        """Return an object that the other end handed out under `id`."""
        return Lent(HandleEntry(HandleSide.RECEIVER, id))

    def description(self, entry: HandleEntry) -> Description:
        """Return the description that came with a handle."""
        return decode_description(entry.description, self.codec)

    # -- saying ----------------------------------------------------------------------------

    def write(self, *frames: bytes | FrameParts | None) -> None:
        """Send frames in one go."""
        data = bytearray()
        for frame in frames:
            assert frame is not None, "the connection has nothing to say"
            data += frame if isinstance(frame, bytes) else frame.head + bytes(frame.body)
        self.send(data)

    def body(self, value: object, head: str | None = None) -> tuple[bytes, list[HandleEntry]]:
        """Return a value as a body and its handle table."""
        body, lent = self.codec.encode(value)
        assert all(isinstance(item, Lent) for item in lent), "only a Lent stands for an object here"
        if head is not None:
            body = self.codec.encode(head)[0] + body
        return body, [item.entry for item in lent if isinstance(item, Lent)]

    def respond(self, id: int, value: object = None) -> None:
        """End a request of the other end well."""
        body, handles = self.body(value)
        self.write(self.connection.send_response(id, body, handles))

    def fail(self, id: int, error: BaseException) -> None:
        """End a request of the other end badly."""
        self.write(self.connection.send_failure(id, self.codec.encode(error)[0]))

    # -- hearing ---------------------------------------------------------------------------

    def value(self, frame: Frame) -> Any:
        """Return the value of a frame, with handle entries in the places of objects."""
        return self.codec.decode(frame.body, frame.handles)

    def result(self, frame: Frame) -> Any:
        """Return the value that ends a call, or raise what it fails with."""
        value = self.value(frame)
        if frame.kind == Kind.FAILURE:
            assert isinstance(value, BaseException)
            raise value
        return value
