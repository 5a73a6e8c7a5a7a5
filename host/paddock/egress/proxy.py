"""The proxy of one module: for clients that use HTTP_PROXY, which may ask it for several destinations in turn.

Each request is checked by itself, so that following a redirect is a new request. Where other processes on the machine
can reach the proxy too, every request has to carry the module's token.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from typing import Final

from paddock.egress.connection import ProxiedConnection
from paddock.egress.connection_record import UpstreamConnection
from paddock.egress.context import EgressContext
from paddock.egress.errors import UNENCRYPTED, AnswerError, BadRequestError, DialError, EgressRefusedError, IdleError
from paddock.egress.http.relay import ForwardTarget, HttpRelay
from paddock.egress.http.request_head import (
    HTTP_PORT,
    HTTPS_PORT,
    RequestHead,
    parsed_authority,
    split_target,
)
from paddock.egress.stream import SocketStream
from paddock.errors import Denial
from paddock.plan.host_name import Destination

USER: Final = "paddock"


class ProxyClient:
    """One client's connection to the proxy; `token` is the secret that it has to send, if any."""

    def __init__(self, egress_context: EgressContext, client: SocketStream, token: str | None) -> None:
        self._egress_context = egress_context
        self._client = client
        self._credentials = None if token is None else f"{USER}:{token}".encode()

    async def run(self) -> None:
        """Serve it to its end, and record its requests."""
        try:
            # No client connects to a proxy to send nothing; other processes must not take up its connections that way.
            async with asyncio.timeout(self._egress_context.bounds.head_seconds):
                first = await self._client.receive()
            tunnel = await HttpRelay(self._client, self._client, self, self._egress_context).run(first)
            if tunnel is not None:
                connection = ProxiedConnection(
                    self._egress_context, self._client, tunnel.destination, "proxy", is_tunnel=True
                )
                await connection.run(tunnel.received)
            else:
                self._client.close()
        except (EgressRefusedError, AnswerError):
            await self._client.close_gracefully()
        except (IdleError, OSError):
            pass  # each destination that it was for has a record of its own
        finally:
            self._client.reset()

    # -- as the judge of requests ----------------------------------------------------------------

    @property
    def subject(self) -> str:
        return "the proxy"

    def judge(self, head: RequestHead) -> ForwardTarget | Destination:
        """Return where a request may go."""
        asked, target = self._asked(head)
        if not self._is_ours(head):
            status = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
            raise EgressRefusedError(asked.text, "the request does not carry the token of the module", status=status)
        self._egress_context.rule_for(asked)
        if target is None:
            return asked
        named = head.host(HTTP_PORT)
        if named is not None and named != asked:
            reason = f"the request is for this, and names {named.text} as its host"
            raise EgressRefusedError(asked.text, reason, status=HTTPStatus.BAD_REQUEST)
        if isinstance(asked.host, str) and asked.port == HTTPS_PORT:
            raise EgressRefusedError(asked.text, f"only TLS is spoken at port {HTTPS_PORT}")
        if self._egress_context.keys_for(asked) and (isinstance(asked.host, str) or not asked.host.is_loopback):
            raise EgressRefusedError(asked.text, UNENCRYPTED)
        return ForwardTarget(asked, target)

    async def open(self, destination: Destination) -> UpstreamConnection:
        """Return a connection to a destination, with a record of its own."""
        record = self._egress_context.record("proxy")
        try:
            record.goes_to(destination, self._egress_context.rule_for(destination))
            record.speaks("inject" if self._egress_context.keys_for(destination) else "http")
            return await self._egress_context.open(destination, record)
        except EgressRefusedError as refused:
            record.end("refused", refused.reason)
            self._egress_context.deny(refused)
            raise
        except DialError as error:
            record.end("failed", error.reason)
            raise
        except BaseException:
            record.end("cut")
            raise

    def deny(self, refused: EgressRefusedError) -> Denial:
        """Report a refusal, and record it."""
        if refused.denial is None:
            self._egress_context.record("proxy").refuse(refused)
        return self._egress_context.deny(refused)

    # -- requests --------------------------------------------------------------------------------

    def _asked(self, head: RequestHead) -> tuple[Destination, bytes | None]:
        """Return the destination of a request, and the target there; None if it asks for a tunnel."""
        if head.method == b"CONNECT":
            return parsed_authority(head.target), None
        asked = split_target(head.target)
        if asked is None:
            raise BadRequestError("this is a proxy: requests are to name their destination")
        return asked

    def _is_ours(self, head: RequestHead) -> bool:
        if self._credentials is None:
            return True
        for value in head.values(b"proxy-authorization"):
            scheme, _, encoded = value.partition(b" ")
            if scheme.lower() == b"basic":
                with suppress(binascii.Error):
                    return compare_digest(base64.b64decode(encoded.strip(), validate=True), self._credentials)
        return False
