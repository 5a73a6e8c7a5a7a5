"""A host without a kernel: the near end of a socket pair, played frame by frame in a thread of its own.

It lives in a thread because a worker may stand still for it. Every wait is bounded.
"""

from __future__ import annotations

import socket
from typing import Any

from paddock_sdk.protocol import Flag, Frame, Kind, Role
from paddock_sdk.protocol.frames import FrameParts
from paddock_sdk.protocol.methods import HostMethod
from support.scripted_end import ScriptedEnd

SECONDS = 60  # for anything one end waits for; hit only by a hang


class ScriptedHost(ScriptedEnd):
    """The host's end of one connection; used by one thread at a time."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(Role.HOST)
        sock.settimeout(SECONDS)
        self._sock = sock

    def close(self) -> None:
        """Be gone."""
        self._sock.close()

    # -- saying ----------------------------------------------------------------------------

    def send(self, data: bytes | bytearray) -> None:
        """Send bytes as the worker takes them."""
        self._sock.sendall(data)

    def greet(self, **welcome: Any) -> Frame:
        """Take the worker's greeting and let it in; return the greeting."""
        hello = self.take(Kind.HELLO)
        self.write(self.connection.send_welcome(self.body({"protocol": 1, **welcome})[0]))
        return hello

    def request_frame(
        self, target: int, method: int, *args: Any, flags: int = Flag.NONE, raw: object = None
    ) -> tuple[int, bytes | FrameParts]:
        """Return a new request and its id, unsent; `raw` stands in place of arguments."""
        body, handles = self.body([list(args), {}] if raw is None else raw)
        return self.connection.send_request(target, method, body, handles, flags=flags)

    def request(self, target: int, method: int = 0, *args: Any, **options: Any) -> int:
        """Call a member of the worker's object; return the call's id."""
        id, frame = self.request_frame(target, method, *args, **options)
        self.write(frame)
        return id

    def in_place(self, target: int, method: int = 0, *args: Any) -> Any:
        """Call a plain function of the worker's and return its answer."""
        return self.answer(self.request(target, method, *args, flags=Flag.IN_PLACE))

    def mirror(self, section: int, value: object, head: str | None = None, target: int = 0) -> None:
        """Tell the worker of a change."""
        body, handles = self.body(value, head)
        self.write(self.connection.send_mirror(section, body, handles, target=target))

    # -- hearing ---------------------------------------------------------------------------

    def take(self, *kinds: Kind) -> Frame:
        """Return the next frame of these kinds; those of other kinds wait for their turn."""
        while True:
            for index, frame in enumerate(self.frames):
                if frame.kind in kinds:
                    return self.frames.pop(index)
            self._hear()

    def next(self) -> Frame:
        """Return the very next frame."""
        while not self.frames:
            self._hear()
        return self.frames.pop(0)

    def begin_to_hear(self) -> None:
        """Return when the worker has begun to say something, all of which is still to be read."""
        assert self._sock.recv(1, socket.MSG_PEEK)

    def request_from_worker(self, method: HostMethod | None = None) -> Frame:
        """Return the worker's next request, of the host's `method` if that is given."""
        request = self.take(Kind.REQUEST)
        assert method is None or (request.target, request.method) == (0, method), HostMethod(request.method).name
        return request

    def grant(self, method: HostMethod, answer: object = None) -> Any:
        """Answer the worker's next request, which has to be of `method`; return what it asked for."""
        request = self.request_from_worker(method)
        value = self.value(request)
        self.respond(request.id, answer)
        return value

    def answer(self, id: int) -> Any:
        """Return what the worker answers call `id` with, or raise what it fails with."""
        for frame in [*self.frames]:
            if frame.kind in (Kind.RESPONSE, Kind.FAILURE) and frame.id == id:
                self.frames.remove(frame)
                break
        else:
            kept, self.frames = self.frames, []
            while True:
                frame = self.next()
                if frame.kind in (Kind.RESPONSE, Kind.FAILURE) and frame.id == id:
                    break
                kept.append(frame)
            self.frames = kept + self.frames
        return self.result(frame)

    def is_silent(self) -> bool:
        """Whether the worker has nothing to say: a round trip brings nothing but itself."""
        id = self.request(0, 99, raw={})  # no such method of the runtime, which it says
        try:
            self.answer(id)
        except ValueError:
            return not self.frames
        raise AssertionError("a method that there is not")

    def _hear(self) -> None:
        data = self._sock.recv(1 << 20)
        assert data, f"the worker closed the connection; heard last: {self.frames[-3:]}"
        self.frames.extend(self.connection.receive_data(data))
