"""Serve a client over standard input and output, which nothing else of the process reads or writes meanwhile.

A client that closes its end ends everything: calls that run are cancelled. Of a client that leaves what it is told
unread, nothing more is read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from asyncio import Future, ReadTransport, StreamReader, StreamReaderProtocol, StreamWriter, Task
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from paddock.errors import KindError
from paddock.mcp_server.client_approval import ClientCall
from paddock.mcp_server.connection import OpenCall, RefusedError, ServerConnection
from paddock_sdk.mcp.messages import Code, Json

if TYPE_CHECKING:
    from paddock.mcp_server.served import ServedTools

_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"')
_CHUNK: Final = 1 << 16  # bytes that are read at once
_ASKED_SECONDS: Final = 600.0  # for an answer
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


async def serve(
    served: ServedTools | str,
    streams: Streams,
    mask: Callable[[str], str] = str,
) -> None:
    """Serve until the client closes its end; of a text that is `served`, every request is refused with it.

    `mask` hides secrets in each text that the client is told, in any part of a message.

    Raises:
        KindError: there is no client at the other end, but a file.
        Exception: what is served ended for good, for this reason.
    """
    incoming, reader, writer = await _opened(streams)

    def send(line: bytes) -> None:
        writer.write(_masked(line, mask))

    def has_room() -> bool:
        return writer.transport.get_write_buffer_size() < _CHUNK

    talk = _Talk(served, send, has_room)
    if not isinstance(served, str):
        served.on_change(talk.changed)
    heard = asyncio.ensure_future(_hear(reader, writer, talk))
    gone = asyncio.ensure_future(writer.wait_closed())
    try:
        await asyncio.wait([heard, gone, talk.over], return_when=asyncio.FIRST_COMPLETED)
        if talk.over.done():
            talk.over.result()
    finally:
        heard.cancel()
        incoming.close()
        await talk.end()
        writer.close()
        await asyncio.wait([gone], timeout=_LAST_SECONDS)
        if not gone.done():
            writer.transport.abort()
        await asyncio.gather(heard, gone, return_exceptions=True)


async def _opened(streams: Streams) -> tuple[ReadTransport, StreamReader, StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = StreamReader()
    protocol = StreamReaderProtocol(reader)
    hint = "a client starts this command, with pipes as its stdin and stdout"
    try:
        loop.add_reader(streams.incoming, lambda: None)
        loop.remove_reader(streams.incoming)
        outgoing, _ = await loop.connect_write_pipe(
            lambda: StreamReaderProtocol(StreamReader()),
            os.fdopen(streams.outgoing, "wb", 0, closefd=False),
        )
    except (PermissionError, ValueError) as error:
        raise KindError("NoClientError", "stdin or stdout is a file, and no client", hints=[hint]) from error
    incoming, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(streams.incoming, "rb", 0, closefd=False))
    return incoming, reader, StreamWriter(outgoing, outgoing.get_protocol(), None, loop)


def _masked(line: bytes, mask: Callable[[str], str]) -> bytes:
    """Return a message with secrets hidden in each of its texts; a number stays one."""
    text = line.decode("ascii")
    if mask(text) == text:
        return line
    return _TEXT.sub(lambda found: mask(found[0]), text).encode()


async def _hear(reader: StreamReader, writer: StreamWriter, talk: _Talk) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            for _ in talk.connection.receive(data):
                await writer.drain()


class _Talk:
    """The tasks of one client's calls; `over` is done with the error that ends them all."""

    def __init__(
        self,
        served: ServedTools | str,
        send: Callable[[bytes], None],
        has_room: Callable[[], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: Future[None] = self._loop.create_future()
        self._served = served
        self._tasks: dict[OpenCall, Task[None]] = {}
        self.connection = ServerConnection(
            served,
            send,
            self._begin,
            self._cancel,
            has_room,
        )

    async def end(self) -> None:
        """End the calls that run."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def changed(self) -> None:
        """Tell the client of a change; the end of what is served ends the talk, once the last call is answered."""
        self.connection.changed()
        self._look()

    def _look(self) -> None:
        end = None if isinstance(self._served, str) else self._served.end
        if end is not None and not self._tasks and not self.over.done():
            self.over.set_exception(end)

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
        self.connection.end(call, outcome)
        self._look()

    async def _outcome(self, call: OpenCall) -> Json | RefusedError:
        assert not isinstance(self._served, str), "with it no call begins"
        if call.method != "tools/call":
            return await self._served.ask(call.method, call.params)
        elicit = partial(self._elicit, call, asyncio.Lock()) if call.can_ask else None
        client = ClientCall(elicit, partial(self.connection.progress, call))
        return await self._served.call(call.params["name"], call.params.get("arguments", {}), client)

    async def _elicit(
        self,
        call: OpenCall,
        turn: asyncio.Lock,
        message: str,
        schema: Json,
    ) -> Json:
        async with turn:
            replied: Future[Json] = self._loop.create_future()

            def take(reply: Json) -> None:
                if not replied.done():  # else the call was cancelled just now
                    replied.set_result(reply)

            self.connection.ask(call, message, schema, take)
            try:
                async with asyncio.timeout(_ASKED_SECONDS):
                    return await replied
            except TimeoutError:
                return {"action": "cancel"}
            finally:
                self.connection.withdraw(call)
