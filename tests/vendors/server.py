"""The server: HTTP and server-sent events for any dialect, on a thread of its own, and a memory of what it was asked.

From entering to leaving it listens on the loopback, over TLS if it is given a context. Requests are answered in the
order in which they come, each by the next turn of the script. What a vendor would refuse is refused and remembered.
Leaving closes every connection.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast, get_args

import h11

from vendors.dialect import Dialect, Refused, Reply
from vendors.script import Fault, Kind, Script, Spent, Turn

_CHUNK_BYTES = 64 * 1024
_CHARACTERS_A_TOKEN = 4
_WAIT_SECONDS: Final = 60.0  # for what takes milliseconds; hit only by a hang
_PAGE = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
_JSON = ("content-type", "application/json")


@dataclass(slots=True)
class Asked:
    """One request and its outcome."""

    method: str
    path: str
    headers: Mapping[str, str]  # by lower-case name
    raw: bytes
    body: Mapping[str, Any] = field(default_factory=dict)
    status: int = 0
    refusal: str = ""  # what was said to a request that no vendor takes
    fault: str = ""
    is_answered: bool = False  # to the end
    is_abandoned: bool = False  # the reader went away before the end


class _Gone(Exception):
    """Raised where the reader of an answer has gone away."""


class _Cut(Exception):
    """Raised where the script says that the connection is closed."""


class VendorServer:
    """Plays a script in a vendor's dialect."""

    def __init__(self, script: Script, dialect: Dialect, *, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self._dialect = dialect
        self._tls = tls
        self._place = ("127.0.0.1", 0)
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vendor server", daemon=True)

    # -- for tests, on any thread ----------------------------------------------------------

    @property
    def port(self) -> int:
        return self._place[1]

    @property
    def url(self) -> str:
        """What a client is given as its base."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}{self._dialect.base}"

    @property
    def answers(self) -> list[Asked]:
        """The requests for an answer of the model."""
        return [one for one in self.asked if one.path == self._dialect.path]

    @property
    def refusals(self) -> list[str]:
        """What was said to requests that no vendor takes."""
        return [one.refusal for one in self.asked if one.refusal]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Block until something that was asked, or became of it, makes a condition true.

        Raises:
            TimeoutError: it did not.
        """
        with self._changed:
            if not self._changed.wait_for(condition, _WAIT_SECONDS):
                raise TimeoutError(f"not within {_WAIT_SECONDS:g} seconds; asked were {self.asked}")

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_WAIT_SECONDS)
        self._place = self._server.sockets[0].getsockname()[:2]
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_WAIT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- on the thread ---------------------------------------------------------------------

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, *self._place, ssl=self._tls)

    async def _close(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        # Transports report their end to the loop, TLS a step after TCP.
        for _ in range(3):
            await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._connections.add(task)
        try:
            await _Connection(reader, writer, self._answer).serve()
            writer.close()  # sends what is left
            await writer.wait_closed()
        except (_Gone, OSError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # how connections end
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _answer(self, connection: _Connection, asked: Asked) -> None:
        self._note(lambda: self.asked.append(asked))
        try:
            await self._play(connection, asked)
            self._note(lambda: setattr(asked, "is_answered", True))
        except (_Gone, OSError):
            self._note(lambda: setattr(asked, "is_abandoned", True))
            raise

    async def _play(self, connection: _Connection, asked: Asked) -> None:
        try:
            turn = self._judge(asked)
        except Refused as refused:
            status, body = self._dialect.error(refused.kind, refused.message)
            asked.status, asked.refusal = status, refused.message
            await connection.send_json(status, body)
            return
        if turn is None:
            await connection.send_json(200, self._dialect.models(self.script.models or ["local-model"]))
            return
        if isinstance(turn, Fault) and (turn.after is None or not asked.body.get("stream")):
            await self._fail(connection, asked, turn)
            return
        fault, asked.status = None, 200
        script = self.script  # a test may set another before a reader is seen to have left
        if isinstance(turn, Fault):
            fault, turn = turn, script.next_turn() or Turn()
            asked.fault = fault.kind
        reply = Reply(turn, turn.usage or _counted(asked, turn), asked.body, len(self.answers))
        try:
            if asked.body.get("stream"):
                await self._stream(connection, reply, fault)
            else:
                await connection.send_json(200, self._dialect.whole(reply))
        except BaseException:
            script.give_back(turn)
            raise
        if fault is not None:
            script.give_back(turn)

    def _judge(self, asked: Asked) -> Turn | Fault | None:
        """Return what a request is answered with, or None for the list of models."""
        script, dialect = self.script, self._dialect
        if script.key and dialect.key(asked.headers) != script.key:
            raise Refused("key", "Incorrect API key provided.")
        path = asked.path.partition("?")[0]
        if path == dialect.models_path and asked.method == "GET":
            asked.status = 200
            return None
        if path != dialect.path or asked.method != "POST":
            raise Refused("bad_request", f"There is nothing at {asked.method} {path}.")
        try:
            body = json.loads(asked.raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise Refused("bad_request", "The body is no JSON object.")
        asked.body = body
        dialect.check(asked.headers, body)
        if script.models is not None and body["model"] not in script.models:
            raise Refused("model", f"The model `{body['model']}` does not exist or you do not have access to it.")
        if script.context_tokens and _prompt_tokens(asked) > script.context_tokens:
            raise Refused(
                "context",
                f"This model's maximum context length is {script.context_tokens} tokens. However, your messages "
                f"resulted in {_prompt_tokens(asked)} tokens. Please reduce the length of the messages.",
            )
        answer = script.next_fault() or script.next_turn()
        if answer is None:
            raise Refused("bad_request", "The script is over.")
        return answer

    async def _fail(self, connection: _Connection, asked: Asked, fault: Fault) -> None:
        asked.fault = fault.kind
        if fault.kind == "stall":
            await connection.wait()
        elif fault.kind == "cut":
            raise _Cut
        elif fault.kind in ("html", "garble", "json"):
            asked.status = fault.status or 200
            kind = "text/html" if fault.kind == "html" else "application/json"
            page = {"html": _PAGE, "garble": b'{"choices": [', "json": fault.message.encode()}[fault.kind]
            await connection.send(asked.status, [("content-type", kind)], page)
        else:
            kind = cast(Kind, fault.kind if fault.kind in get_args(Kind) else "server_error")
            status, body = self._dialect.error(kind, fault.message or f"A scripted {kind}.")
            asked.status = fault.status or status
            extra = [("retry-after", fault.retry_after)] if fault.retry_after else []
            await connection.send_json(asked.status, body, extra)

    async def _stream(self, connection: _Connection, reply: Reply, fault: Fault | None) -> None:
        await connection.begin(200, [("content-type", "text/event-stream"), ("cache-control", "no-cache")])
        for number, event in enumerate(self._events(reply)):
            if fault is not None and number == fault.after:
                if fault.kind == "stall":
                    await connection.wait()
                elif fault.kind == "garble":
                    await connection.piece(f"{event[: len(event) * 2 // 3]}\n\n")
                elif fault.kind == "error_event":
                    await connection.piece(self._dialect.error_event("server_error", fault.message or "Overloaded."))
                    break
                else:
                    raise _Cut
            await connection.piece(event)
        await connection.end()

    def _events(self, reply: Reply) -> Iterator[str]:
        for event in self._dialect.events(reply):
            # Made when it is sent, since generators wait for their reader.
            yield event.replace("{sent_ns}", str(time.monotonic_ns()))

    def _note(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()


class _Connection:
    """One connection, and as many requests as its client makes of it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[_Connection, Asked], Any],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        while (asked := await self._request()) is not None:
            try:
                await self._answer(self, asked)
            except _Cut:
                return
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def send_json(self, status: int, body: Mapping[str, Any], extra: list[tuple[str, str]] | None = None) -> None:
        await self.send(status, [_JSON, *(extra or [])], json.dumps(body).encode())

    async def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        await self.begin(status, [*headers, ("content-length", str(len(body)))])
        await self._write(h11.Data(data=body), h11.EndOfMessage())

    async def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        await self._write(h11.Response(status_code=status, headers=headers))

    async def piece(self, text: str) -> None:
        await self._write(h11.Data(data=text.encode()))

    async def end(self) -> None:
        await self._write(h11.EndOfMessage())

    async def wait(self) -> None:
        """Wait until the reader goes away, and raise `_Gone`."""
        await self._reader.read(1)
        raise _Gone

    async def _write(self, *events: h11.Event) -> None:
        if self._writer.transport.is_closing():
            raise _Gone
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        await self._writer.drain()

    async def _request(self) -> Asked | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_CHUNK_BYTES))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
                return Asked(head.method.decode(), head.target.decode(), headers, bytes(body))
            else:
                return None


def _prompt_tokens(asked: Asked) -> int:
    return len(json.dumps(asked.body.get("messages"))) // _CHARACTERS_A_TOKEN


def _counted(asked: Asked, turn: Turn) -> Spent:
    thought = len(turn.reasoning)
    arguments = sum(len(call.arguments) for call in turn.tool_calls)
    return Spent(_prompt_tokens(asked), thought + len(turn.text) + arguments, reasoning=thought)
