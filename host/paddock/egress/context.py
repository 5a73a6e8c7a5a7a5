"""The shared parts of one module's connections: its rules, its keys, the dialer, and the report of refusals.

It opens upstream connections; its callers speak on them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from paddock.egress.connection_record import ConnectionRecord, Recorder, Route, UpstreamConnection, UsedGrants
from paddock.egress.dialer import Dialer
from paddock.egress.errors import DialError, EgressRefusedError, not_granted
from paddock.egress.injection import InjectedKeys, KeyInjection, keys_for
from paddock.egress.limits import EgressLimits, PublicRates
from paddock.egress.rules import NetRules
from paddock.egress.stream import SocketStream, Stream, TlsStream
from paddock.errors import Denial
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import NetRule
from paddock.token_bucket import TokenBucket

if TYPE_CHECKING:
    from paddock.egress.certificate_authority import CertificateAuthority


@dataclass(eq=False, kw_only=True)
class EgressContext:
    """The network access of one module; see `EgressGate`."""

    module: str
    rules: NetRules
    injections: Sequence[KeyInjection]
    recorder: Recorder
    on_denial: Callable[[Denial], None]
    dialer: Dialer
    upstream_tls: ssl.SSLContext | None
    bounds: EgressLimits
    line: Callable[..., str]

    def __post_init__(self) -> None:
        self.used: UsedGrants = {"net": set(), "secrets": set()}
        self.requests = TokenBucket(self.bounds.requests_per_second, self.bounds.requests_at_once)
        self._public = PublicRates(self.bounds)
        self.authority: CertificateAuthority | None = None
        if self.injections:
            # The code for signing is loaded only for modules with an injected key.
            from paddock.egress.certificate_authority import CertificateAuthority

            self.authority = CertificateAuthority(each.rule for each in self.injections)

    def record(self, way: Route) -> ConnectionRecord:
        """Return the record of a connection that begins now."""
        return ConnectionRecord(self.recorder, self.module, way, self.used)

    def keys_for(self, destination: Destination) -> InjectedKeys:
        """Return the keys to put into requests for a destination."""
        return keys_for(destination, self.injections)

    def rule_for(self, destination: Destination) -> NetRule:
        """Return the rule that allows a destination.

        Raises:
            RefusedError: none does.
        """
        rule = self.rules.rule_for(destination)
        if rule is not None:
            return rule
        if self.rules.knows(destination.host):
            raise not_granted(destination, f"the host was granted, port {destination.port} of it was not")
        if isinstance(destination.host, str):
            raise not_granted(destination, "it was not granted")
        raise not_granted(destination, "an address has to be granted by itself, and this one was not")

    def deny(self, refused: EgressRefusedError) -> Denial:
        """Report a refusal, once, and return the report."""
        if refused.denial is not None:
            return refused.denial
        denial = Denial(
            operation=refused.operation,
            target=refused.target,
            caller=self.module,
            layer="egress",
            grant=self.line(*refused.lacks) if refused.lacks else "",
            reason=refused.reason,
        )
        refused.denial = denial
        self.on_denial(denial)
        return denial

    async def open(
        self, destination: Destination, record: ConnectionRecord, *, encrypted: bool = False
    ) -> UpstreamConnection:
        """Return a connection to an allowed destination, in TLS if the host itself is to encrypt it.

        Raises:
            RefusedError: the name leads to a forbidden address.
            DialError: it cannot be reached, or fails to prove its identity; that is reported like a refusal.
        """
        try:
            return await self._open(destination, record, encrypted)
        except DialError as error:
            self.on_denial(
                Denial("connect to", destination.text, self.module, layer="destination", reason=error.reason)
            )
            raise

    async def _open(self, destination: Destination, record: ConnectionRecord, encrypted: bool) -> UpstreamConnection:
        rates = self._public if self.rule_for(destination).is_public else None
        if rates is not None:
            await rates.connections.spend()
        deadline = asyncio.get_running_loop().time() + self.bounds.connect_seconds
        sock, address = await self.dialer.dial(destination)
        record.reaches(str(address))
        below = SocketStream(sock, record, rates)
        stream: Stream = below
        if encrypted:
            try:
                stream = await self._encrypted(below, destination, deadline)
            except BaseException:
                below.reset()
                raise
        return UpstreamConnection(destination, below, stream, record, self.keys_for(destination))

    async def _encrypted(self, below: SocketStream, destination: Destination, deadline: float) -> TlsStream:
        try:
            async with asyncio.timeout_at(deadline):
                return await TlsStream.connect(below, self._tls, str(destination.host))
        except TimeoutError:
            raise DialError(f"no TLS with {destination.text} in time", timed_out=True) from None
        except ssl.SSLCertVerificationError as error:
            raise DialError(f"{destination.text} is not trusted: {error.verify_message}") from None
        except OSError as error:
            raise DialError(f"no TLS with {destination.text}: {error.strerror or 'the connection broke'}") from None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        if self.upstream_tls is not None:
            return self.upstream_tls
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context
