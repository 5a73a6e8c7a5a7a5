"""One checked HTTP request on its way to the destination, and its answer.

Both are rewritten from their parsed form, without the headers of a single connection (RFC 9110, section 7.6.1).
Nothing is gathered: bytes are passed on before more are read, so that events of a stream arrive one by one, also where
an answer is searched for a key. A request and its response travel at the same time, since a server may answer before it
has received everything. When an exchange ends, also by cancellation, all its tasks have ended: none of them reads from
its client or its link after that, or writes there.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, Final, TypeVar

import h11

from paddock.egress.connection_record import UpstreamConnection
from paddock.egress.errors import AnswerError, BadRequestError
from paddock.egress.http.request_head import RequestHead
from paddock.egress.injection import Headers
from paddock.egress.stream import Stream
from paddock.egress.stream_redactor import StreamRedactor

_T = TypeVar("_T")

_MAX_RESPONSE_HEAD_BYTES: Final = 32 * 1024  # cookies and policies make for large ones
_EVENTS_IN_A_TURN: Final = 64  # of one body in tiny pieces, before others have theirs

# About one connection, not about the message; `te` and `trailer` are for trailers, which are not passed on.
_HOP_BY_HOP: Final = frozenset(
    (b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings")
)
# What a Connection header may name and does not take away: it would make another request of it.
_KEPT: Final = frozenset((b"host", b"content-length", b"content-type", b"authorization", b"cookie"))
_PARTIAL: Final = frozenset((b"range", b"if-range"))
_EMPTY: Final = frozenset((204, 304))
# A request with a key asks for none of these, whose answers could not be searched: compressed, or in wide characters.
_UNSEARCHABLE: Final = frozenset((b"accept-encoding", b"accept-charset", b"sec-websocket-extensions"))
# Streams of lines: half a line is of no use to a client, so it is never passed on because of its age.
_LINES: Final = frozenset(
    (b"text/event-stream", b"application/x-ndjson", b"application/ndjson", b"application/jsonl", b"application/x-jsonl")
)


class _Taken(Enum):
    """How much of a body was taken: all of it, what has arrived, or enough for a turn."""

    ALL = 1
    ARRIVED = 2
    TURN = 3


class HttpExchange:
    """A request of `client`, to be made on `link` for `target`."""

    def __init__(self, client: Stream, head: RequestHead, upstream: UpstreamConnection, target: bytes) -> None:
        self._client = client
        self._head = head
        self._upstream = upstream
        self._request_side = head.connection
        self._answer_side = h11.Connection(h11.CLIENT, _MAX_RESPONSE_HEAD_BYTES)
        self._out = bytearray()  # for the client
        self._is_all_sent = False
        self._has_heard = False
        self._has_answered = False
        self._problem: BadRequestError | None = None
        self._is_upgrade = _asks_for_websocket(head)
        self._filter: StreamRedactor | None = upstream.keys.redactor() if upstream.keys else None
        self._is_of_lines = False  # what is answered
        self._clock = asyncio.get_running_loop().time
        try:
            self._request = self._written_anew(target)
        except h11.LocalProtocolError:
            # Not its text, which quotes what is wrong: there may be a key in it.
            raise BadRequestError("the request cannot be passed on") from None

    @property
    def keeps_link(self) -> bool:
        """Whether the destination waits for another request."""
        # h11 knows which bytes it wrote, not which were sent: behind half a body the next request would be its rest.
        side = self._answer_side
        return (
            self._is_all_sent
            and side.our_state is h11.DONE
            and side.their_state is h11.DONE
            and not side.trailing_data[0]
        )

    async def run(self, received: bytes) -> bytes | None:
        """Carry it out; `received` are the client's bytes after the head.

        Return the bytes after the request, None if the client's connection is for no other request.

        Raises:
            BadRequestError: the body of the request is malformed, and was not passed on to its end.
            AnswerError: there is no answer, or no end of it.
            OSError: the client's connection broke.
        """
        try:
            return await self._run(received)
        finally:
            if self._filter is not None:
                self._upstream.record.count_keys(echoes=self._filter.found)

    async def _run(self, received: bytes) -> bytes | None:
        if received:
            self._request_side.receive_data(received)
        start = bytearray(self._answer_side.send(self._request))
        taken = self._take_body(start)
        if taken is _Taken.ALL:
            self._is_all_sent = await self._pass_up(start)
            switched = await self._answer()
        else:
            async with background_task(self._pass_body_up(start, taken)):
                try:
                    switched = await self._answer()
                except AnswerError as error:
                    if self._problem is None:
                        raise
                    status = None if error.status is None else self._problem.status
                    raise BadRequestError(self._problem.reason, status) from None
        if switched:
            await self._carry_both_ways()
            return None
        side = self._request_side
        if side.our_state is h11.DONE and side.their_state is h11.DONE:
            return side.trailing_data[0]
        return None

    # -- the request ---------------------------------------------------------------------------

    def _written_anew(self, target: bytes) -> h11.Request:
        headers = _end_to_end(self._head.request, self._head.tokens(b"connection"))
        if not self._head.values(b"host"):
            headers.insert(0, (b"Host", self._upstream.destination.text.encode("ascii")))
        if self._head.values(b"transfer-encoding"):
            headers.append((b"Transfer-Encoding", b"chunked"))
        if self._is_upgrade:
            headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
        if self._upstream.keys:
            target, headers, filled = self._upstream.keys.fill(target, headers)
            self._upstream.record.count_keys(filled)
            # The answer has to be such that the values can be searched for: all of it, and not compressed.
            without = _UNSEARCHABLE | (_PARTIAL if filled else frozenset())
            headers = [(name, value) for name, value in headers if name.lower() not in without]
            headers.append((b"Accept-Encoding", b"identity"))
        return h11.Request(method=self._head.method, target=target, headers=headers)

    def _take_body(self, into: bytearray) -> _Taken:
        """Put the arrived part of the body behind the bytes to send, up to one turn."""
        body = bytearray()
        taken = _Taken.TURN
        try:
            for _ in range(_EVENTS_IN_A_TURN):
                event = self._request_side.next_event()
                if isinstance(event, h11.Data):
                    body += event.data
                else:
                    taken = _Taken.ALL if isinstance(event, h11.EndOfMessage) else _Taken.ARRIVED
                    break
        except h11.RemoteProtocolError:
            raise BadRequestError("the body of the request is malformed, or ends too early") from None
        if body:
            into += self._answer_side.send(h11.Data(bytes(body)))
        if taken is _Taken.ALL:
            into += self._answer_side.send(h11.EndOfMessage())
        return taken

    async def _pass_body_up(self, out: bytearray, taken: _Taken) -> None:
        while await self._pass_up(out):
            if taken is _Taken.ALL:
                self._is_all_sent = True
                return
            try:
                if taken is _Taken.ARRIVED:
                    self._request_side.receive_data(await self._client.receive())
                else:
                    await asyncio.sleep(0)
                out = bytearray()
                taken = self._take_body(out)
            except (BadRequestError, OSError) as error:
                self._problem = error if isinstance(error, BadRequestError) else BadRequestError("its sender is gone")
                self._upstream.hang_up()
                return

    async def _pass_up(self, data: bytearray) -> bool:
        try:
            await self._upstream.stream.send(data)
        except OSError:
            return False  # it may have answered before it went
        return True

    # -- the answer ----------------------------------------------------------------------------

    async def _answer(self) -> bool:
        """Pass on the answer; return whether the connection has left HTTP."""
        try:
            return await self._pass_on_answer()
        except h11.LocalProtocolError:
            # It was read, and cannot be written. Not its text, which quotes the bad part: there may be a key in it.
            raise AnswerError("the answer is malformed", None if self._has_answered else 502) from None

    async def _pass_on_answer(self) -> bool:
        for number in itertools.count(1):
            if number % _EVENTS_IN_A_TURN == 0:
                await self._flush()
                await asyncio.sleep(0)
            try:
                event = self._answer_side.next_event()
            except h11.RemoteProtocolError:
                ended = self._answer_side.trailing_data[1]
                raise self._unanswered(
                    "the destination ended in the middle of an answer" if ended else "the answer is malformed"
                ) from None
            if event is h11.NEED_DATA:
                await self._flush()
                self._answer_side.receive_data(await self._received_or_released())
            elif isinstance(event, h11.InformationalResponse):
                self._pass_down_news(event)
                if event.status_code == 101:
                    await self._flush()
                    return True
            elif isinstance(event, h11.Response):
                self._pass_down_head(event)
            elif isinstance(event, h11.Data):
                self._pass_down(self._filter.feed(event.data, self._clock()) if self._filter else event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._pass_down(self._filter.end() if self._filter is not None else b"")
                self._out += self._sent_down(h11.EndOfMessage())
                await self._flush()
                return False
            else:
                break
        raise self._unanswered("the destination ended without an answer")

    async def _received_or_released(self) -> bytes:
        """Return the next part of the answer; bytes held back meanwhile are passed on when they are old enough."""

        async def release(held: bytes) -> None:
            self._pass_down(held)
            await self._flush()

        return await _received_or_released(self._received, None if self._is_of_lines else self._filter, release)

    async def _received(self) -> bytes:
        try:
            data = await self._upstream.stream.receive()
        except OSError:
            raise self._unanswered("the connection to the destination broke") from None
        self._has_heard = self._has_heard or bool(data)
        return data

    def _unanswered(self, reason: str) -> AnswerError:
        # A kept connection may end just as the next request arrives. Clients know how to go on then, unless they are
        # given another answer.
        is_stale = self._upstream.record.requests > 1 and not self._has_heard
        return AnswerError(reason, None if self._has_answered or is_stale else 502)

    def _pass_down_news(self, event: h11.InformationalResponse) -> None:
        if event.status_code != 101 and self._head.request.http_version < b"1.1":
            return
        headers = self._shown(event)
        if event.status_code == 101:
            if self._filter is not None and any(name == b"sec-websocket-extensions" for name, _ in event.headers):
                raise AnswerError("the answer has extensions, so that it cannot be searched for the key", 502)
            headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
            self._has_answered = True
        self._out += self._sent_down(
            h11.InformationalResponse(
                status_code=event.status_code, headers=headers, reason=self._hidden(bytes(event.reason))
            )
        )

    def _pass_down_head(self, event: h11.Response) -> None:
        # Of the two one would be right (RFC 9112, section 6.3), but who sends both may have been made to: what one
        # reader takes for the end of an answer is the beginning of another one to the next.
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
            raise AnswerError("the answer says in two ways how long it is", 502)
        headers = self._shown(event)
        if self._filter is not None and not self._can_be_searched(event):
            raise AnswerError("the answer is encoded, so that it cannot be searched for the key", 502)
        kinds = {value.partition(b";")[0].strip().lower() for name, value in event.headers if name == b"content-type"}
        self._is_of_lines = bool(kinds) and kinds <= _LINES
        self._out += self._sent_down(
            h11.Response(status_code=event.status_code, headers=headers, reason=self._hidden(bytes(event.reason)))
        )
        self._has_answered = True

    def _can_be_searched(self, event: h11.Response) -> bool:
        if self._head.method == b"HEAD" or event.status_code in _EMPTY:
            return True
        return all(value.lower() in (b"", b"identity") for name, value in event.headers if name == b"content-encoding")

    def _shown(self, event: h11.InformationalResponse | h11.Response) -> Headers:
        connection = [value for name, value in event.headers if name == b"connection"]
        kept = _end_to_end(event, {token.strip().lower() for value in connection for token in value.split(b",")})
        if self._filter is None:
            return kept
        return [(self._hidden(name), self._hidden(value)) for name, value in kept]

    def _hidden(self, text: bytes) -> bytes:
        return text if self._filter is None else self._filter.hide(text)

    def _sent_down(self, event: h11.Event) -> bytes:
        return self._request_side.send(event) or b""

    def _pass_down(self, data: bytes | bytearray) -> None:
        if data:
            self._out += self._sent_down(h11.Data(bytes(data)))

    async def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, bytearray()
            await self._client.send(out)

    # -- after HTTP ----------------------------------------------------------------------------

    async def _carry_both_ways(self) -> None:
        """Carry a websocket's data, from the part that arrived already, until both sides have ended."""
        up, down = self._request_side.trailing_data[0], self._answer_side.trailing_data[0]
        try:
            async with background_task(_carry(self._client, self._upstream.stream, up, None)) as other:
                await _carry(self._upstream.stream, self._client, down, self._filter)
                await other
        except OSError:
            raise AnswerError("the connection broke", None) from None


async def _carry(source: Stream, sink: Stream, first: bytes, through: StreamRedactor | None) -> None:
    clock = asyncio.get_running_loop().time
    data = first or await source.receive()
    while data:
        if out := through.feed(data, clock()) if through is not None else data:
            await sink.send(out)
        data = await _received_or_released(source.receive, through, sink.send)
    if through is not None and (rest := through.end()):
        await sink.send(rest)
    await sink.finish()


async def _received_or_released(
    receive: Callable[[], Coroutine[Any, Any, bytes]],
    held: StreamRedactor | None,
    release: Callable[[bytes], Awaitable[None]],
) -> bytes:
    """Return the next data; until then, release data that has been held back long enough."""
    if held is None or held.due is None:
        return await receive()
    clock = asyncio.get_running_loop().time
    async with background_task(receive()) as receiving:
        while (due := held.due) is not None:
            done, _ = await asyncio.wait((receiving,), timeout=due - clock())
            if done:
                break
            if aged := held.aged(clock()):
                await release(aged)
        return await receiving


def _end_to_end(message: h11.Request | h11.InformationalResponse | h11.Response, named: set[bytes]) -> Headers:
    """Return the headers that are not about one connection, in their original spelling."""
    left_out = _HOP_BY_HOP | (named - _KEPT)
    return [
        (name, value)
        for name, value in message.headers.raw_items()
        if (lower := name.lower()) not in left_out and not lower.startswith(b"proxy-")
    ]


def _asks_for_websocket(head: RequestHead) -> bool:
    """Whether this wants to go on as a websocket: nothing else is spoken after HTTP, least of all HTTP/2 unread."""
    return (
        head.method == b"GET"
        and head.request.http_version == b"1.1"
        and b"upgrade" in head.tokens(b"connection")
        and head.tokens(b"upgrade") == {b"websocket"}
        and not head.values(b"content-length")
        and not head.values(b"transfer-encoding")
    )


@asynccontextmanager
async def background_task(doing: Coroutine[Any, Any, _T]) -> AsyncIterator[asyncio.Task[_T]]:
    """Run a coroutine as a task; when the block is left, the task is cancelled, and has ended.

    Its error is raised where the block ends without one, unless the block awaits the task itself. If the caller is
    cancelled, the wait for the task goes on, and the cancellation is raised after it.
    """
    task = asyncio.create_task(doing)
    try:
        yield task
    finally:
        task.cancel()
        await _ended(task)
    if not task.cancelled():
        task.result()


async def _ended(task: asyncio.Task[Any]) -> None:
    # Not by awaiting the task: its cancellation would look like that of the caller.
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.exception()  # known, should another error be on its way
    if cancelled is not None:
        raise cancelled
