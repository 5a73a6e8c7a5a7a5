"""Serve a client over standard input and output, which nothing else of the process reads or writes meanwhile.

A client that closes its end ends everything: calls that run are cancelled. Reading stops while a client leaves more
than a message unread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from paddock.mcp_server.connection import ServerConnection
from paddock.mcp_server.held_calls import HELD_SECONDS, Json, OpenCall
from paddock.mcp_server.served import ClientCall, Served
from paddock_sdk.mcp.messages import MAX_MESSAGE_BYTES, Code

_PIECE: Final = 4096  # bytes; a pipe that takes any at once takes so many
_READ_BYTES: Final = 1 << 16
_LAST_MILLISECONDS: Final = 1000  # for a client that has left to read on

_log = logging.getLogger(__name__)


class Streams(NamedTuple):
    """The descriptors that a client's bytes come from and go to."""

    incoming: int
    outgoing: int


@contextmanager
def client_streams() -> Iterator[Streams]:
    """Take over stdin and stdout of the process: stdin is empty from here on, and what is printed goes to stderr."""
    streams = Streams(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield streams
    finally:
        for one in streams:
            os.close(one)


async def serve(served: Served | None, streams: Streams, refusal: str = "") -> None:
    """Serve until the client closes its end; with a `refusal`, every request gets that text instead.

    Raises:
        Exception: what is served ended for good, for this reason.
    """
    serving = _Serving(served, streams, refusal)
    if served is not None:
        served.on_change(serving.changed)
    try:
        await serving.closed
    finally:
        await serving.end()


class _Serving:
    """The tasks and streams of one client's connection."""

    def __init__(self, served: Served | None, streams: Streams, refusal: str) -> None:
        loop = asyncio.get_running_loop()
        self.closed: Future[None] = loop.create_future()
        self._loop = loop
        self._served = served
        self._tasks: dict[OpenCall, Task[None]] = {}
        self._output = _Output(streams.outgoing, loop, self._close)
        self._input = _Input(streams.incoming, loop, self._take)
        self._connection = ServerConnection(served, self._send, self._begin, self._cancel, loop.call_later, refusal)
        self._input.read_on()

    async def end(self) -> None:
        """End the calls that run, and let the client read what it was told."""
        self._input.pause()
        self._connection.close()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._output.end()

    def changed(self) -> None:
        """Tell the client of a change; the end of what is served ends the connection."""
        self._connection.changed()
        if self._served is not None and self._served.end is not None:
            self._close(self._served.end)

    def _close(self, error: Exception | None = None) -> None:
        if self.closed.done():
            return
        if error is None:
            self.closed.set_result(None)
        else:
            self.closed.set_exception(error)

    def _take(self, data: bytes) -> None:
        if not data:
            self._close()
        self._connection.receive(data)
        if self._output.backlog > MAX_MESSAGE_BYTES:
            self._input.pause()

    def _send(self, line: bytes) -> None:
        self._output.write(line, self._input.read_on)

    # -- calls -----------------------------------------------------------------------------

    def _begin(self, call: OpenCall) -> None:
        self._tasks[call] = self._loop.create_task(self._run(call))

    def _cancel(self, call: OpenCall) -> None:
        task = self._tasks.get(call)
        if task is not None:
            task.cancel()

    async def _run(self, call: OpenCall) -> None:
        assert self._served is not None
        try:
            if call.method == "tools/call":
                elicit = partial(self._elicit, call, asyncio.Lock()) if call.can_ask else None
                client = ClientCall(elicit, partial(self._connection.progress, call))
                arguments = call.params.get("arguments", {})
                result = await self._served.call(call.params["name"], arguments, client)
            else:
                result = await self._served.ask(call.method, call.params)
            self._connection.finish(call, result)
        except LookupError as error:
            self._connection.fail(call, Code.INVALID_PARAMS, str(error))
        except Exception as error:
            _log.exception("%s failed", call.method)
            self._connection.fail(call, Code.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        finally:
            del self._tasks[call]

    async def _elicit(self, call: OpenCall, turn: asyncio.Lock, message: str, schema: Json) -> Json:
        async with turn:
            replied: Future[Json] = self._loop.create_future()

            def take(reply: Json) -> None:
                if not replied.done():  # else the call was cancelled just now
                    replied.set_result(reply)

            self._connection.ask(call, message, schema, take)
            try:
                async with asyncio.timeout(HELD_SECONDS):
                    return await replied
            except TimeoutError:
                return {"action": "cancel"}
            finally:
                self._connection.withdraw(call)


class _Input:
    """Reads a descriptor as it fills; `take` gets what came, and nothing at the end."""

    def __init__(self, descriptor: int, loop: AbstractEventLoop, take: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._take = take
        self._is_reading = False

    def read_on(self) -> None:
        """Read, from now on or again."""
        if not self._is_reading:
            self._is_reading = True
            try:
                self._loop.add_reader(self._descriptor, self._on_readable)
            except PermissionError:  # a file, which never has to be waited for
                self._loop.call_soon(self._on_readable, True)

    def pause(self) -> None:
        """Read nothing for now."""
        self._is_reading = False
        self._loop.remove_reader(self._descriptor)

    def _on_readable(self, is_file: bool = False) -> None:
        if not self._is_reading:
            return
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # of a terminal that is gone
            data = b""
        if not data:
            self.pause()
        elif is_file:
            self._loop.call_soon(self._on_readable, True)
        self._take(data)


class _Output:
    """Writes to a descriptor, in pieces that do not block the loop; `gone` is called once nobody reads."""

    def __init__(self, descriptor: int, loop: AbstractEventLoop, gone: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._gone = gone
        self._left = bytearray()
        self._drained: Callable[[], None] | None = None
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    @property
    def backlog(self) -> int:
        """How many bytes are still to be written."""
        return len(self._left)

    def write(self, line: bytes, drained: Callable[[], None]) -> None:
        """Write a line, now or when there is room; `drained` is called once all is written that had to wait."""
        self._left += line
        if self._drained is None:
            self._flush()
            if self._left:
                self._drained = drained
                self._loop.add_writer(self._descriptor, self._on_room)

    def end(self) -> None:
        """Write what is left, as long as somebody reads it."""
        if self._drained is not None:
            self._loop.remove_writer(self._descriptor)
        self._flush(_LAST_MILLISECONDS)

    def _on_room(self) -> None:
        self._flush()
        if not self._left and self._drained is not None:
            self._loop.remove_writer(self._descriptor)
            drained, self._drained = self._drained, None
            drained()

    def _flush(self, milliseconds: int = 0) -> None:
        while self._left and self._poll.poll(milliseconds):
            try:
                del self._left[: os.write(self._descriptor, self._left[:_PIECE])]
            except BlockingIOError:
                return
            except OSError:
                self._left.clear()
                self._gone()
