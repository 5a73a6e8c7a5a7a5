"""A worker without a process: the far end of a socket pair, driven frame by frame on the test's own loop.

What it receives is kept in order and taken by kind. It answers nothing by itself. Every wait for a frame is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from paddock_sdk.protocol import PROTOCOL_VERSION, Flag, Frame, Kind, Role
from paddock_sdk.protocol.frames import FrameParts
from paddock_sdk.protocol.methods import HostMethod
from support.scripted_end import ScriptedEnd

_SECONDS = 60  # for a frame to arrive; hit only by a hang


class ScriptedWorker(ScriptedEnd):
    """The worker's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(Role.WORKER)
        sock.setblocking(False)
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

    def copy_of_its_end(self) -> socket.socket:
        """Return a copy of the worker's socket, as a process that it has started would have one."""
        return self._sock.dup()

    @property
    def has_sent_all(self) -> bool:
        """Whether the host could read all that was said, even if the worker died now."""
        return not self._unsent

    # -- saying ----------------------------------------------------------------------------

    def send(self, data: bytes | bytearray) -> None:
        """Send bytes in one go, or as the host takes them."""
        self._unsent += data
        self._on_writable()

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

    def notify(self, method: int, value: object, head: str | None = None) -> None:
        """Send a notification."""
        body, handles = self.body(value, head)
        self.write(self.connection.send_notify(0, method, body, handles))

    async def tell(self, method: int, value: object, head: str | None = None) -> None:
        """Send a notification, and return when the host has looked at it."""
        self.notify(method, value, head)
        await self.round_trip()

    # -- hearing ---------------------------------------------------------------------------

    def stop_reading(self) -> None:
        """Leave what the host sends in the socket."""
        self._loop.remove_reader(self._sock.fileno())

    def read_on(self) -> None:
        """Read again."""
        self._loop.add_reader(self._sock.fileno(), self._on_readable)

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
        return self.result(frame)

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


async def until(condition: Callable[[], object]) -> None:
    """Return when `condition` holds; it is looked at after each step of the loop."""
    async with asyncio.timeout(_SECONDS):
        while not condition():
            await asyncio.sleep(0)
