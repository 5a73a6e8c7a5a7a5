"""A worker without a process: the far end of a socket pair, driven frame by frame on the test's own loop.

It speaks the real protocol through the real state machine and says exactly what a test tells it to. What it hears
is kept in order and taken by kind; nothing is answered by itself, and every wait for a frame is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Any

from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import (
    PROTOCOL_VERSION,
    Connection,
    Flag,
    Frame,
    HandleEntry,
    HandleSide,
    Kind,
    Role,
)
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.description import Description, Flavour, Member, decode_description, encode_description
from paddock_sdk.protocol.frames import FrameParts
from paddock_sdk.protocol.methods import HostMethod

_SECONDS = 60  # for a frame to arrive; hit only by a hang

ASYNC, SYNC, STREAM = Flavour.ASYNC, Flavour.SYNC, Flavour.STREAM


class Lent:
    """Stands, in a value that is sent, for the object of one row of the frame's handle table."""

    def __init__(self, entry: HandleEntry) -> None:
        self.entry = entry


class ScriptedWorker:
    """The worker's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.connection = Connection(Role.WORKER)
        self.codec = Codec(ContractVocabulary())
        self.frames: list[Frame] = []  # heard and not yet taken
        self.is_cut_off = False  # the host has closed the connection
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._unsent = bytearray()
        self._loop.add_reader(sock.fileno(), self._on_readable)

    def close(self) -> None:
        """Die: the connection ends."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()
            self.is_cut_off = True
            self._news.set()

    # -- what it owns ----------------------------------------------------------------------

    def describe(self, _members: dict[str, Flavour], _is_function: bool = False, **attributes: Any) -> bytes:
        """Return a description."""
        members = tuple(Member(name, flavour) for name, flavour in _members.items())
        return encode_description(Description("Thing", members, attributes, _is_function), self.codec)

    def own(self, id: int, _members: dict[str, Flavour] | None = None, **attributes: Any) -> Lent:
        """Return an object of this worker, described."""
        return Lent(HandleEntry(HandleSide.SENDER, id, self.describe(_members or {}, **attributes)))

    def function(self, id: int, flavour: Flavour = ASYNC) -> Lent:
        """Return a function of this worker, described."""
        return Lent(HandleEntry(HandleSide.SENDER, id, self.describe({"__call__": flavour}, True)))

    def again(self, id: int) -> Lent:
        """Return an object of this worker that was described before."""
        return Lent(HandleEntry(HandleSide.SENDER, id))

    def foreign(self, id: int) -> Lent:
        """Return an object that the host handed out under `id`."""
        return Lent(HandleEntry(HandleSide.RECEIVER, id))

    # -- saying ----------------------------------------------------------------------------

    def write(self, *frames: bytes | FrameParts | None) -> None:
        """Send frames in one go, or as the host takes them."""
        for frame in frames:
            assert frame is not None, "the connection has nothing to say"
            self._unsent += frame if isinstance(frame, bytes) else frame.head + bytes(frame.body)
        self._on_writable()

    def body(self, value: object, head: str | None = None) -> tuple[bytes, list[HandleEntry]]:
        """Return a value as a body and its handle table."""
        body, lent = self.codec.encode(value)
        assert all(isinstance(item, Lent) for item in lent), "only a Lent stands for an object here"
        if head is not None:
            body = self.codec.encode(head)[0] + body
        return body, [item.entry for item in lent if isinstance(item, Lent)]

    def hello(self, protocol: int = PROTOCOL_VERSION) -> None:
        """Greet the host."""
        body, _ = self.body({"protocol": protocol, "module": "scripted", "pid": 1})
        self.write(self.connection.send_hello(body))

    async def greet(self) -> None:
        """Greet the host and be let in."""
        self.hello()
        await self.take(Kind.WELCOME)

    def request_frame(
        self,
        target: int,
        method: int,
        value: object,
        *,
        flags: int = Flag.NONE,
        parent: int = 0,
        head: str | None = None,
    ) -> tuple[int, bytes | FrameParts]:
        """Return a new request and its id, unsent."""
        body, handles = self.body(value, head)
        return self.connection.send_request(target, method, body, handles, flags=flags, parent=parent)

    def request(self, target: int, method: int, value: object, **options: Any) -> int:
        """Send a request; return its id."""
        id, frame = self.request_frame(target, method, value, **options)
        self.write(frame)
        return id

    def call_object(self, target: int, method: int = 0, *args: Any, **options: Any) -> int:
        """Call a member of an object that the host handed out; return the call's id."""
        return self.request(target, method, [list(args), {}], **options)

    def respond(self, id: int, value: object = None) -> None:
        """End the host's request well."""
        body, handles = self.body(value)
        self.write(self.connection.send_response(id, body, handles))

    def fail(self, id: int, error: BaseException) -> None:
        """End the host's request badly."""
        self.write(self.connection.send_failure(id, self.codec.encode(error)[0]))

    def notify(self, method: int, value: object, head: str | None = None) -> None:
        """Send a notification."""
        body, handles = self.body(value, head)
        self.write(self.connection.send_notify(0, method, body, handles))

    # -- hearing ---------------------------------------------------------------------------

    async def take(self, *kinds: Kind) -> Frame:
        """Return the next frame of these kinds; those of other kinds wait for their turn."""
        async with asyncio.timeout(_SECONDS):
            while True:
                for index, frame in enumerate(self.frames):
                    if frame.kind in kinds:
                        return self.frames.pop(index)
                assert not self.is_cut_off, f"the host closed the connection; heard last: {self.frames[-3:]}"
                self._news.clear()
                await self._news.wait()

    async def next(self) -> Frame:
        """Return the very next frame."""
        return await self.take(*(kind for kind in Kind))

    async def request_from_host(self) -> Frame:
        return await self.take(Kind.REQUEST)

    async def answer(self, id: int) -> Any:
        """Return what the host answers call `id` with, or raise what it fails with."""
        async with asyncio.timeout(_SECONDS):
            while True:
                frame = await self.take(Kind.RESPONSE, Kind.FAILURE)
                if frame.id == id:
                    break
                self.frames.append(frame)
                await asyncio.sleep(0)
        value = self.value(frame)
        if frame.kind == Kind.FAILURE:
            assert isinstance(value, BaseException)
            raise value
        return value

    async def ask(self, target: int, method: int, value: object, **options: Any) -> Any:
        """Send a request and return its answer, or raise what it fails with."""
        return await self.answer(self.request(target, method, value, **options))

    async def cut_off(self) -> None:
        """Return when the host has closed the connection."""
        async with asyncio.timeout(_SECONDS):
            while not self.is_cut_off:
                self._news.clear()
                await self._news.wait()

    async def round_trip(self) -> None:
        """Return when the host has looked at everything said so far, and all it said to that is here."""
        await self.ask(0, HostMethod.UNREGISTER, [0])  # there is no registration 0, so this does nothing

    def value(self, frame: Frame) -> Any:
        """Return the value of a frame, with handle entries in the places of objects."""
        return self.codec.decode(frame.body, frame.handles)

    def description(self, entry: HandleEntry) -> Description:
        """Return the description that came with a handle."""
        return decode_description(entry.description, self.codec)

    def heard(self, *kinds: Kind) -> list[Frame]:
        """Return the frames of these kinds that were heard and not yet taken."""
        return [frame for frame in self.frames if frame.kind in kinds]

    def _on_writable(self) -> None:
        try:
            del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self._unsent.clear()
        if self._unsent:
            self._loop.add_writer(self._sock.fileno(), self._on_writable)
        else:
            self._loop.remove_writer(self._sock.fileno())

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if data:
            self.frames.extend(self.connection.receive_data(data))
        else:
            self.is_cut_off = True
            self._loop.remove_reader(self._sock.fileno())
        self._news.set()


def ids(entries: Iterable[HandleEntry]) -> list[tuple[int, int]]:
    """Return sides and numbers of handle entries, without their descriptions."""
    return [(int(entry.side), entry.id) for entry in entries]


async def until(condition: Callable[[], object]) -> None:
    """Return when `condition` holds; it is looked at after each step of the loop."""
    async with asyncio.timeout(_SECONDS):
        while not condition():
            await asyncio.sleep(0)
