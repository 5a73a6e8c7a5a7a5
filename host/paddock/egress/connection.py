"""One connection to one allowed destination, from its beginning to its end; its protocol decides how it is carried.

The destination may send first, and its bytes are passed on, unless only `public` allows it. The client's bytes are not
passed on before its protocol is known. If several names have the address that the client connected to, these bytes say
which of them is the destination. TLS has to name the destination; it is then carried unchanged, or ended here to
put a key in. If a hello hides another in it, the outer name counts. HTTP is passed on request by request. Any other
protocol is carried unchanged, at ports where neither TLS nor HTTP is expected.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar

from paddock.egress.connection_record import Route, UpstreamConnection
from paddock.egress.context import EgressContext
from paddock.egress.errors import UNENCRYPTED, AnswerError, BadRequestError, DialError, EgressRefusedError, IdleError
from paddock.egress.first_bytes import ClientHelloError, ClientProtocol, client_protocol_of, read_client_hello
from paddock.egress.http.relay import ForwardTarget, HttpRelay, plain_answer, unreached_answer
from paddock.egress.http.request_head import HTTP_PORT, HTTPS_PORT, RequestHead, split_target, take_head
from paddock.egress.relay import Relay
from paddock.egress.stream import SocketStream, Stream, TlsStream, idle_timeout, receive_more, why
from paddock.errors import Denial
from paddock.plan.host_name import Destination, Host

T = TypeVar("T")

_UNRECOGNIZED_NAME: Final = b"\x15\x03\x03\x00\x02\x02\x70"  # a fatal alert, which clients show to people (RFC 6066)


class ProxiedConnection:
    """A connection of `client`, which it ends, to `destination`, or to the one of several `names` of that address.

    With `is_tunnel`, the client asked for it by CONNECT, and waits for the answer.
    """

    def __init__(
        self,
        egress_context: EgressContext,
        client: SocketStream,
        destination: Destination,
        way: Route,
        *,
        names: Sequence[str] = (),
        is_tunnel: bool = False,
    ) -> None:
        self._egress_context = egress_context
        self._client = client
        self._destination = destination
        self._names = names
        self._is_tunnel = is_tunnel
        self._keys = egress_context.keys_for(destination)
        self._record = egress_context.record(way)
        self._is_public = False  # whether nothing but `public` allows it
        self._is_encrypted = False  # towards the client, by the host
        self._opening_seen: ClientProtocol | None = None

    async def run(self, received: bytes = b"") -> None:
        """Carry it to its end, and record it; `received` are bytes of the client that were read already."""
        try:
            if self._names:
                received = await self._choose_name()
            rule = self._egress_context.rule_for(self._destination)
            self._is_public = rule.is_public
            self._record.goes_to(self._destination, rule)
            await self._carry(received)
            self._client.close()
        except EgressRefusedError as refused:
            await self._close_refused(refused, self.deny(refused))
        except DialError as error:
            self._record.end("failed", error.reason)
            if self._is_tunnel:
                await self._client.close_gracefully(unreached_answer(error, self._destination))
        except AnswerError as error:
            self._record.end("failed", error.reason)
            if error.status is not None:
                await self._client.close_gracefully()
        except IdleError:
            self._record.end("idle")
        except OSError as error:
            self._record.end("failed", why(error))
        finally:
            self._record.end("cut")
            self._client.reset()

    # -- as the judge of requests ----------------------------------------------------------------

    @property
    def subject(self) -> str:
        return self._destination.text

    def judge(self, head: RequestHead) -> ForwardTarget:
        """Return the target of a request, if it is for the destination."""
        if head.method == b"CONNECT":
            raise BadRequestError("a request for a tunnel to something that is no proxy")
        asked = split_target(head.target)
        named = head.host(HTTPS_PORT if self._is_encrypted else HTTP_PORT)
        for other in (named, asked[0] if asked is not None else None):
            if other is not None and other != self._destination:
                raise self._names_another(other)
        return ForwardTarget(self._destination, head.target if asked is None else asked[1])

    async def open(self, destination: Destination) -> UpstreamConnection:
        """Return a connection to the destination, a new one each time."""
        if self._record.address:  # the record is that of the connection before this one
            self._record = self._record.next()
        return await self._egress_context.open(destination, self._record, encrypted=self._is_encrypted)

    def deny(self, refused: EgressRefusedError) -> Denial:
        """Report a refusal, and record it."""
        self._record.end("refused", refused.reason)
        return self._egress_context.deny(refused)

    async def _choose_name(self) -> bytes:
        """Make the destination the one of the names that the client's first bytes contain; return what was received."""
        async with self._not_idle():
            opening, data = await self._opening(b"")
        named: Host | None = None
        port, max_bytes = self._destination.port, self._egress_context.bounds.head_bytes
        try:
            if opening is ClientProtocol.TLS:
                hello, data = await self._whole(read_client_hello, data, "its TLS")
                named = hello.server_name
            elif opening is ClientProtocol.HTTP:
                head, data = await self._whole(lambda data: take_head(bytearray(data), max_bytes), data, "its request")
                asked = head.host(port)
                named = None if asked is None else asked.host
        except (BadRequestError, ClientHelloError) as error:
            raise self._refused(f"its first bytes cannot be read: {error}") from None
        if named is None:
            raise self._refused(f"{' and '.join(self._names)} have this address, and the connection names neither")
        destination = Destination(named, port)
        if named not in self._names:
            raise self._names_another(destination)
        self._destination, self._keys = destination, self._egress_context.keys_for(destination)
        return data

    # -- the client's protocol ------------------------------------------------------------------------

    async def _carry(self, received: bytes) -> None:
        if self._keys:
            await self._greet()
            async with self._not_idle():
                opening, first = await self._opening(received)
            await self._put_in_keys(opening, first)
            return
        upstream = await self._egress_context.open(self._destination, self._record)
        relay = Relay(self._client.sock, upstream.below.sock, self._record, upstream.below.rates)
        try:
            await self._greet()
            if not self._is_public:
                relay.start_down()
            async with self._not_idle():
                opening, first = await self._opening(received)
            self._refuse_the_unexpected(opening)
            if opening is ClientProtocol.HTTP:
                relay.stop()
                await self._pass_on_requests(first, upstream)
                return
            if opening is ClientProtocol.TLS:
                first = await self._checked_hello(first)
            self._record.speaks("tls" if opening is ClientProtocol.TLS else "raw")
            async with self._not_idle():
                await relay.run(first)
            upstream.end("ended")
        finally:
            relay.stop()
            upstream.drop()

    def _not_idle(self) -> AbstractAsyncContextManager[None]:
        return idle_timeout(self._record, self._egress_context.bounds.idle_seconds)

    async def _greet(self) -> None:
        if self._is_tunnel:
            await self._client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._is_tunnel = False

    async def _opening(self, received: bytes) -> tuple[ClientProtocol | None, bytes]:
        """Return the client's protocol, and the bytes that it sent; None if it sends nothing."""
        opening, data = None, received or await self._client.receive()
        if data:
            opening, data = await self._whole(client_protocol_of, data, "what it speaks")
        self._opening_seen = opening
        return opening, data

    async def _whole(self, read: Callable[[bytes], T | None], data: bytes, what: str) -> tuple[T, bytes]:
        """Return the meaning of the client's first bytes, once `read` finds one, and all received bytes."""
        async with self._in_time(what):
            while (meaning := read(data)) is None:
                more = await receive_more(self._client)
                if not more:
                    raise self._refused(f"the client ended before it had said {what}")
                data += more
        return meaning, data

    def _refuse_the_unexpected(self, opening: ClientProtocol | None) -> None:
        if opening is ClientProtocol.HTTP and self._record.down:
            raise self._refused("the destination spoke before the request")
        if not isinstance(self._destination.host, str) or (opening is None and not self._is_public):
            return
        expected = {HTTPS_PORT: ClientProtocol.TLS, HTTP_PORT: ClientProtocol.HTTP}.get(self._destination.port, opening)
        if expected is not None and opening is not expected:
            raise self._refused(f"only {expected.name} is spoken at port {self._destination.port}")

    async def _checked_hello(self, data: bytes) -> bytes:
        """Return all received bytes, once they name the destination."""
        host = self._destination.host
        if not isinstance(host, str):
            return data  # an address was granted, under any name
        try:
            hello, data = await self._whole(read_client_hello, data, "its TLS")
        except ClientHelloError as error:
            raise self._refused(f"its TLS cannot be read: {error}") from None
        if hello.server_name is None:
            raise self._refused("its TLS names no server")
        if hello.has_encrypted_hello and self._is_public:
            raise self._refused("its TLS has an encrypted hello, which may name another server than can be read")
        if hello.server_name != host:
            raise self._names_another(Destination(hello.server_name, self._destination.port))
        return data

    async def _pass_on_requests(
        self, first: bytes, upstream: UpstreamConnection | None, client: Stream | None = None
    ) -> None:
        self._record.speaks("inject" if self._keys else "http")
        await HttpRelay(client or self._client, self._client, self, self._egress_context, upstream).run(first)

    async def _put_in_keys(self, opening: ClientProtocol | None, first: bytes) -> None:
        if opening is None:
            return
        self._refuse_the_unexpected(opening)
        if opening is ClientProtocol.TLS:
            client = await self._ended_tls(await self._checked_hello(first))
            self._is_encrypted = True
            await self._pass_on_requests(b"", None, client)
        elif opening is ClientProtocol.OTHER:
            raise self._refused("a key is put in here, which only works in HTTP")
        elif isinstance(self._destination.host, str) or not self._destination.host.is_loopback:
            raise self._refused(UNENCRYPTED)
        else:
            await self._pass_on_requests(first, None)

    async def _ended_tls(self, first: bytes) -> TlsStream:
        authority = self._egress_context.authority
        assert authority is not None  # there are keys
        context = authority.context_for(self._destination.host)
        try:
            async with self._in_time("its TLS"):
                return await TlsStream.serve(self._client, context, first)
        except ssl.SSLError as error:
            raise AnswerError(f"the client's TLS failed: {error.reason}", None) from None

    # -- refusals --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _in_time(self, what: str) -> AsyncIterator[None]:
        seconds = self._egress_context.bounds.head_seconds
        try:
            async with asyncio.timeout(seconds) as timeout:
                yield
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._refused(f"the client takes longer than {seconds:g} s to say {what}", 408) from None

    def _refused(self, reason: str, status: int = 403) -> EgressRefusedError:
        return EgressRefusedError(self._destination.text, reason, status=status)

    def _names_another(self, other: Destination) -> EgressRefusedError:
        """Return the refusal of a connection that names another host than its destination."""
        reason = f"the connection is one to {self._destination.text}"
        is_granted = self._egress_context.rules.rule_for(other) is not None
        return EgressRefusedError(other.text, reason, lacks=[] if is_granted else [other.text])

    async def _close_refused(self, refused: EgressRefusedError, denial: Denial) -> None:
        """Answer the client in its own protocol, if it has no answer yet."""
        if self._is_tunnel:
            await self._client.close_gracefully(
                plain_answer(refused.status or 403, f"{denial.describe()}; {denial.hint}\n")
            )
        elif self._record.protocol in ("http", "inject"):
            await self._client.close_gracefully()
        elif self._opening_seen is ClientProtocol.TLS:
            await self._client.close_gracefully(_UNRECOGNIZED_NAME)
