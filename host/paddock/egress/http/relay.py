"""Pass on the HTTP requests of one client, each checked by itself, and their answers.

The next request is not read before the last one is answered. Between two requests the end of either side ends the
other, so that a client notices the end of a server as it would without the relay.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from paddock.egress.connection_record import Outcome, UpstreamConnection
from paddock.egress.context import EgressContext
from paddock.egress.errors import AnswerError, BadRequestError, DialError, EgressRefusedError, IdleError
from paddock.egress.http.exchange import HttpExchange
from paddock.egress.http.request_head import RequestHead, take_head
from paddock.egress.stream import SocketStream, Stream, idle_timeout, receive_more, wait_for_any
from paddock.errors import Denial
from paddock.plan.host_name import Destination

_MAX_PHRASE = 200  # characters
_TELL_SECONDS = 1.0  # for a client to take its last answer; it may not be reading
_LOOK_SECONDS = 2.0  # between looks at whether the client is still there while an answer is awaited


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A client's request to speak to a destination in its own protocol; `received` are the bytes it sent before."""

    destination: Destination
    received: bytes


@dataclass(frozen=True, slots=True)
class ForwardTarget:
    """The destination of one request, and its path there."""

    destination: Destination
    target: bytes


class RequestJudge(Protocol):
    """Decides about requests, and opens the connections for them."""

    @property
    def subject(self) -> str:
        """What to report as refused for a request that cannot be understood."""
        ...

    def judge(self, head: RequestHead) -> ForwardTarget | Destination:
        """Return where a request may go; a destination alone is that of a tunnel.

        Raises:
            RefusedError: it may not.
            BadRequestError: it is none that is passed on.
        """
        ...

    async def open(self, destination: Destination) -> UpstreamConnection:
        """Return a connection that the caller is to end.

        Raises:
            RefusedError: there is none to be made.
            DialError: it cannot be reached.
        """
        ...

    def deny(self, refused: EgressRefusedError) -> Denial:
        """Report a refusal, once."""
        ...


class HttpRelay:
    """One client's requests; `below` is the socket under its stream."""

    def __init__(
        self,
        client: Stream,
        below: SocketStream,
        judge: RequestJudge,
        egress_context: EgressContext,
        upstream: UpstreamConnection | None = None,
    ) -> None:
        self._client = client
        self._below = below
        self._judge = judge
        self._bounds = egress_context.bounds
        self._budget = egress_context.requests
        self._upstream = upstream
        self._is_asked = False  # whether a request is on its way

    async def run(self, received: bytes) -> Tunnel | None:
        """Serve the client until it ends or wants a tunnel; `received` are the bytes that it sent already.

        Raises:
            RefusedError: a request was refused; the client knows.
            AnswerError: there was no answer; the client knows, if nothing of one was sent.
            IdleError: nothing has happened for too long.
            OSError: the connection with the client broke.
        """
        try:
            async with idle_timeout(self._below.traffic, self._bounds.idle_seconds):
                return await self._serve(bytearray(received))
        except IdleError:
            self._end_link("idle")
            raise
        except EgressRefusedError as refused:
            denial = self._judge.deny(refused)
            self._end_link("cut" if self._is_asked else "ended")
            if refused.status is not None:
                await self._tell(plain_answer(refused.status, f"{denial.describe()}; {denial.hint}\n"))
            raise
        except AnswerError as error:
            self._end_link("failed", error.reason)
            if error.status is not None:
                await self._tell(error.answer or plain_answer(error.status, f"{error.reason}\n"))
            raise
        finally:
            self._end_link("cut")

    async def _serve(self, buffer: bytearray) -> Tunnel | None:
        while True:
            try:
                head = await self._next_head(buffer)
                if head is None:
                    self._end_link("ended")
                    return None
                await self._budget.spend()
                forward_target = self._judge.judge(head)
                if isinstance(forward_target, Destination):
                    self._end_link("ended")
                    return Tunnel(forward_target, bytes(buffer))
                upstream = await self._link_to(forward_target.destination)
                upstream.record.requests += 1
                exchange = HttpExchange(self._client, head, upstream, forward_target.target)
                self._is_asked = True
                rest = await self._carried_out(exchange, upstream, bytes(buffer))
                self._is_asked = False
            except BadRequestError as bad:
                raise EgressRefusedError(self._judge.subject, bad.reason, status=bad.status) from None
            if not exchange.keeps_link:
                self._end_link("ended")
            if rest is None:
                self._end_link("ended")
                return None
            buffer[:] = rest

    async def _carried_out(self, exchange: HttpExchange, upstream: UpstreamConnection, received: bytes) -> bytes | None:
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if self._below.is_ended_by_peer:
                upstream.hang_up()  # the client no longer waits for the answer
            else:
                timer = loop.call_later(_LOOK_SECONDS, look)

        timer = loop.call_later(_LOOK_SECONDS, look)
        try:
            return await exchange.run(received)
        finally:
            timer.cancel()

    async def _next_head(self, buffer: bytearray) -> RequestHead | None:
        """Return the head of the next request, None at the end of either side."""
        if not buffer:
            if self._upstream is not None:
                # Until either side sends something: the destination can only end.
                ready = await wait_for_any(self._client, self._upstream.stream)
                if self._upstream.stream in ready:
                    self._end_link("ended")
                if self._client not in ready:
                    return None
            buffer += await self._client.receive()
            if not buffer:
                return None
        try:
            async with asyncio.timeout(self._bounds.head_seconds):
                while (head := take_head(buffer, self._bounds.head_bytes)) is None:
                    received = await receive_more(self._client)
                    if not received:
                        raise BadRequestError("the client ended in the middle of a request")
                    buffer += received
                return head
        except TimeoutError:
            reason = f"the head of a request takes longer than {self._bounds.head_seconds:g} s"
            raise BadRequestError(reason, HTTPStatus.REQUEST_TIMEOUT) from None

    async def _link_to(self, destination: Destination) -> UpstreamConnection:
        if self._upstream is not None and self._upstream.destination != destination:
            self._end_link("ended")
        if self._upstream is None:
            try:
                self._upstream = await self._judge.open(destination)
            except DialError as error:
                answer = unreached_answer(error, destination)
                raise AnswerError(error.reason, 504 if error.timed_out else 502, answer=answer) from None
        return self._upstream

    def _end_link(self, outcome: Outcome, reason: str = "") -> None:
        if self._upstream is not None:
            self._upstream.end(outcome, reason)
            self._upstream = None

    async def _tell(self, answer: bytes) -> None:
        with suppress(OSError):
            async with asyncio.timeout(_TELL_SECONDS):
                await self._client.send(answer)
                await self._client.finish()


def unreached_answer(error: DialError, destination: Destination) -> bytes:
    """Return the answer to a request for a destination that cannot be reached.

    The reason is in its first line too, since that is all that most clients of a proxy show. The text is one line
    without its end: clients put it into sentences of their own.
    """
    text = f"{error.reason.removesuffix('.')}. {destination.text} is granted; Paddock refused nothing."
    phrase = re.sub(r"[^ -~]", "?", error.reason)[:_MAX_PHRASE]
    return plain_answer(504 if error.timed_out else 502, text, phrase)


def plain_answer(status: int, text: str, phrase: str = "") -> bytes:
    """Return a whole answer of the host's own, after which the connection ends.

    `Proxy-Status` (RFC 9209) tells a client that it is no answer of the server.
    """
    body = text.encode("utf-8", "replace")
    head = [
        f"HTTP/1.1 {status} {phrase or HTTPStatus(status).phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
        "Proxy-Status: paddock",
    ]
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        head.append('Proxy-Authenticate: Basic realm="paddock"')
    return "\r\n".join([*head, "", ""]).encode("ascii") + body
