"""Serve a client over standard input and output, which nothing else of the process reads or writes meanwhile.

A client that closes its end ends everything: calls that run are cancelled. Of a client that leaves what it is told
unread, nothing more is read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from asyncio import Future, Task
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Final, NamedTuple, cast

from paddock.errors import KindError
from paddock.mcp_server.connection import HELD_SECONDS, OpenCall, RefusedError, ServerConnection
from paddock.mcp_server.served import ClientCall, Json, Served
from paddock_sdk.mcp.messages import Code

_LAST_SECONDS: Final = 1.0  # for a client that has left to read on

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
            os.set_blocking(one, True)  # as others have it who share a terminal
            os.close(one)


async def serve(served: Served | None, streams: Streams, refusal: str = "") -> None:
    """Serve until the client closes its end; with a `refusal`, every request gets that text instead.

    Raises:
        KindError: there is no client at the other end, but a file.
        Exception: what is served ended for good, for this reason.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(streams.incoming, lambda: None)
        loop.remove_reader(streams.incoming)
    except PermissionError as error:
        hint = "a client starts this command, with a pipe as its stdin"
        raise KindError("NoClientError", "stdin is a file, and no client", hints=[hint]) from error
    talk = _Talk(served, refusal)
    if served is not None:
        served.on_change(talk.changed)
    await talk.output.open(streams.outgoing)
    await loop.connect_read_pipe(lambda: talk, os.fdopen(streams.incoming, "rb", 0, closefd=False))
    try:
        await talk.closed
    finally:
        await talk.end()


class _Output(asyncio.BaseProtocol):
    """What a client is told: a pipe that it reads as it likes, or a file, which takes all at once."""

    def __init__(self, talk: _Talk) -> None:
        self._talk = talk
        self._file: IO[bytes] | None = None
        self._pipe: asyncio.WriteTransport | None = None
        self._lost: Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, descriptor: int) -> None:
        """Write to this descriptor from now on."""
        self._file = os.fdopen(descriptor, "wb", 0, closefd=False)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            loop = asyncio.get_running_loop()
            self._pipe, _ = await loop.connect_write_pipe(lambda: self, self._file)

    def write(self, line: bytes) -> None:
        """Write a line, now or once there is room."""
        if self._pipe is not None:
            self._pipe.write(line)
        elif self._file is not None:
            self._file.write(line)

    async def end(self) -> None:
        """Let the client read the rest, if it still does."""
        if self._pipe is None:
            return
        self._pipe.close()
        await asyncio.wait([self._lost], timeout=_LAST_SECONDS)
        if not self._lost.done():
            self._pipe.abort()

    def pause_writing(self) -> None:
        self._talk.reading.pause_reading()

    def resume_writing(self) -> None:
        self._talk.reading.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set_result(None)
        self._talk.close()


class _Talk(asyncio.Protocol):
    """What one client says, and the tasks of its calls."""

    reading: asyncio.ReadTransport

    def __init__(self, served: Served | None, refusal: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed: Future[None] = self._loop.create_future()  # by the client, or with the error that ends it
        self.output = _Output(self)
        self._served = served
        self._tasks: dict[OpenCall, Task[None]] = {}
        self._connection = ServerConnection(
            served,
            self.output.write,
            self._begin,
            self._cancel,
            self._loop.call_later,
            refusal,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.reading = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._connection.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()

    def close(self, error: Exception | None = None) -> None:
        """End the talk, because the client is gone, or with an error."""
        if self.closed.done():
            return
        if error is None:
            self.closed.set_result(None)
        else:
            self.closed.set_exception(error)

    async def end(self) -> None:
        """End the calls that run, and let the client read what it was told."""
        self.reading.close()
        self._connection.close()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.output.end()

    def changed(self) -> None:
        """Tell the client of a change; the end of what is served ends the talk, once the last call is answered."""
        self._connection.changed()
        self._look()

    def _look(self) -> None:
        if self._served is not None and self._served.end is not None and not self._tasks:
            self.close(self._served.end)

    def _begin(self, call: OpenCall) -> None:
        self._tasks[call] = self._loop.create_task(self._run(call))

    def _cancel(self, call: OpenCall) -> None:
        task = self._tasks.get(call)
        if task is not None:
            task.cancel()

    async def _run(self, call: OpenCall) -> None:
        try:
            outcome = await self._outcome(call)
        except LookupError as error:
            outcome = RefusedError(Code.INVALID_PARAMS, str(error))
        except Exception as error:
            _log.exception("%s failed", call.method)
            outcome = RefusedError(Code.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        finally:
            del self._tasks[call]
        self._connection.end(call, outcome)
        self._look()

    async def _outcome(self, call: OpenCall) -> Json | RefusedError:
        assert self._served is not None, "without it no call begins"
        if call.method != "tools/call":
            return await self._served.ask(call.method, call.params)
        elicit = partial(self._elicit, call, asyncio.Lock()) if call.can_ask else None
        client = ClientCall(elicit, partial(self._connection.progress, call))
        return await self._served.call(call.params["name"], call.params.get("arguments", {}), client)

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
