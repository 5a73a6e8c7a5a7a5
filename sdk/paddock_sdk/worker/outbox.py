"""The outgoing frames of a worker's socket: sent at once if the socket takes them, else in order later.

Some frames may leave along with the next one: each by itself would wake the host. A closed connection is not reported
here; reading reports it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence

from paddock_sdk.protocol.frames import Buffer, FrameParts


class Outbox:
    """The frames on their way through one non-blocking socket."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self._left: deque[memoryview] = deque()
        self._along: list[bytes] = []
        self._loop = loop  # which watches the socket, whenever something waits for it

    def __bool__(self) -> bool:
        """Whether something waits for the socket to take more."""
        return bool(self._left)

    def write(self, frame: bytes | FrameParts) -> None:
        """Send as much as the socket takes now, batched frames first, and the rest later."""
        pieces: Sequence[Buffer] = (frame,) if isinstance(frame, bytes) else frame
        if self._along:
            pieces = (b"".join((*self._along, pieces[0])), *pieces[1:])
            self._along.clear()
        for piece in pieces:
            if self._left:
                self._left.append(memoryview(piece))
                continue
            try:
                sent = self._sock.send(piece)
            except BlockingIOError:
                sent = 0
            except OSError:
                return
            if sent < len(piece):
                self._left.append(memoryview(piece)[sent:])
                self._loop.add_writer(self._fd, self.on_writable)

    def write_along(self, frame: bytes | FrameParts) -> None:
        """Send a frame with the next one, or when the loop gets to it."""
        if not self._along:
            self._loop.call_soon(self._flush)
        self._along.append(frame if isinstance(frame, bytes) else b"".join(frame))

    def on_writable(self) -> None:
        """Send more of the waiting data."""
        while self._left:
            try:
                sent = self._sock.send(self._left[0])
            except BlockingIOError:
                return
            except OSError:
                self._left.clear()
                break
            if sent < len(self._left[0]):
                self._left[0] = self._left[0][sent:]
                return
            self._left.popleft()
        self._loop.remove_writer(self._fd)

    def _flush(self) -> None:
        if self._along:
            self.write(b"")
