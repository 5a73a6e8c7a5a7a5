"""The network access of one module, over all of its lives: each connection is carried to its destination or refused.

The gate takes over the sockets of a worker's network, where everything arrives that the worker sends, or listens by
itself where a worker has no network of its own. At its end it closes all of it, also when it is cancelled meanwhile. It
sends nothing to a destination that no rule names.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import IPv4Address, ip_address
from typing import Final

from paddock.egress.connection import ProxiedConnection
from paddock.egress.connection_record import Recorder, UsedGrants
from paddock.egress.context import EgressContext
from paddock.egress.dialer import Dialer, NameResolver, SystemResolver, WhyNear
from paddock.egress.dns import LookupSocket
from paddock.egress.errors import EgressRefusedError
from paddock.egress.injection import KeyInjection
from paddock.egress.limits import EgressLimits
from paddock.egress.listener import Listener
from paddock.egress.name_table import NAMES, NameTable
from paddock.egress.neighbours import why_near
from paddock.egress.proxy import USER, ProxyClient
from paddock.egress.rules import NetRules
from paddock.egress.stream import SocketStream, reset
from paddock.errors import Denial
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import DEFAULT_PORT, PUBLIC_PORTS
from paddock_sandbox.network import GATEWAY

PROXY_PORT: Final = 3128
"""Where the proxy is, at the address GATEWAY of a worker's own network."""

_PROXY_PLACE: Final = (GATEWAY, PROXY_PORT)
_PROXY: Final = "the proxy"  # the target in a refusal of a connection to it
_TOKEN_BYTES: Final = 32
_BACKLOG: Final = 128

Where = tuple[str, int]


def _own_name(accepted: socket.socket) -> Where:
    host, port = accepted.getsockname()[:2]
    return host, port


class EgressGate:
    """The gate of `module`, which may go where `rules` lead.

    Args:
        injections: keys that are put into requests.
        audit: keeps a record of each connection.
        on_denial: is called with each refusal.
        resolve: knows the addresses of names; by default the system.
        neighbours: says which addresses are near, as `why_near` does, the default.
        upstream_tls: how servers are verified where the host speaks TLS with them; by default by the system's list.
        bounds: the limits.
        destination_of: returns the destination of an accepted socket; by default its own name.
        line: returns the line by which the module's entry would grant some destinations as well; empty if none may.
    """

    def __init__(
        self,
        module: str,
        rules: NetRules,
        *,
        audit: Recorder,
        on_denial: Callable[[Denial], None],
        injections: Sequence[KeyInjection] = (),
        resolve: NameResolver | None = None,
        neighbours: WhyNear = why_near,
        upstream_tls: ssl.SSLContext | None = None,
        bounds: EgressLimits = EgressLimits(),  # noqa: B008 - frozen
        destination_of: Callable[[socket.socket], Where] = _own_name,
        line: Callable[..., str] = lambda *destinations: "",
    ) -> None:
        self._system: SystemResolver | None = None
        if resolve is None:
            resolve = self._system = SystemResolver()
        self._egress_context = EgressContext(
            module=module,
            rules=rules,
            injections=injections,
            recorder=audit,
            on_denial=on_denial,
            dialer=Dialer(rules, resolve, bounds.connect_seconds, neighbours),
            upstream_tls=upstream_tls,
            bounds=bounds,
            line=line,
        )
        self._rules = rules
        self._bounds = bounds
        self._destination_of = destination_of
        self._names = NameTable()
        self._decisions: dict[str, asyncio.Task[None]] = {}  # on the address of each name that a rule spells
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._own_port: int | None = None
        self._own: Listener | None = None
        self._listener: Listener | None = None
        self._lookups: LookupSocket | None = None

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that a worker's own network is to listen at."""
        return tuple(sorted({*self._rules.ports, PROXY_PORT}))

    @property
    def proxy_url(self) -> str:
        """The worker's HTTP_PROXY; it carries the token once the gate listens by itself."""
        if self._own_port is None:
            return f"http://{GATEWAY}:{PROXY_PORT}"
        return f"http://{USER}:{self._token}@127.0.0.1:{self._own_port}"

    @property
    def ca_pem(self) -> str:
        """The certificate for the worker to trust besides others, in PEM; empty where no key is injected."""
        authority = self._egress_context.authority
        return "" if authority is None else authority.pem

    @property
    def used(self) -> UsedGrants:
        """The grants that allowed connections so far."""
        return self._egress_context.used

    def attach(self, listeners: Sequence[socket.socket], dns: socket.socket) -> None:
        """Take over the sockets of a new life, which are listening and do not block; the one before has to be over."""
        if self._listener is not None:
            raise RuntimeError("the life before was not detached")
        self._listener = Listener(listeners, self._bounds, self._serve, self._reject)
        self._lookups = LookupSocket(dns, self._bounds, self._look_up, self._decision_on, self._unknown_name)

    def listen(self) -> int:
        """Open a proxy on 127.0.0.1, for clients with the module's token; return its port, the same each time.

        Raises:
            OSError: there can be no listener.
        """
        if self._own_port is None:
            listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
            listener.setblocking(False)
            self._own_port = listener.getsockname()[1]
            self._own = Listener(
                [listener], self._bounds, partial(self._serve, is_own=True), partial(self._reject, is_own=True)
            )
        return self._own_port

    async def detach(self) -> None:
        """End the current life's part: its sockets, and every connection."""
        listener, self._listener = self._listener, None
        if self._lookups is not None:
            self._lookups.close()
            self._lookups = None
        try:
            if listener is not None:
                await listener.close()
        finally:
            if self._own is not None:
                await self._own.end_connections()

    async def aclose(self) -> None:
        """End everything."""
        own, self._own, self._own_port = self._own, None, None
        try:
            await self.detach()
        finally:
            for decision in self._decisions.values():
                decision.cancel()
            try:
                if own is not None:
                    await own.close()
            finally:
                if self._system is not None:
                    await self._system.aclose()

    def is_names(self, address: IPv4Address) -> bool:
        """Return whether a connection to this address is one to a name; from any thread."""
        return address in NAMES or bool(self._names.names_of(address))

    # -- arriving clients ------------------------------------------------------------------------

    async def _serve(self, accepted: socket.socket, *, is_own: bool = False) -> None:
        client = SocketStream(accepted)
        try:
            where = _PROXY_PLACE if is_own else self._destination_of(accepted)
            if where == _PROXY_PLACE:
                await ProxyClient(self._egress_context, client, self._token if is_own else None).run()
            else:
                destination, names = self._destination(*where)
                await ProxiedConnection(self._egress_context, client, destination, "direct", names=names).run()
        except EgressRefusedError as refused:
            self._refuse(refused)
        except OSError:
            pass  # it is gone already
        finally:
            client.reset()

    def _destination(self, host: str, port: int) -> tuple[Destination, tuple[str, ...]]:
        """Return the destination for an address that a worker connected to; with the names of that, if it has several.

        Raises:
            RefusedError: it stands for no name.
        """
        address = ip_address(host)
        names = self._names.names_of(address) if isinstance(address, IPv4Address) else ()
        if len(names) == 1:
            return Destination(names[0], port), ()
        if not names and address in NAMES:
            raise EgressRefusedError(f"{host}:{port}", "no name that was looked up has this address")
        return Destination(address, port), names

    def _reject(self, accepted: socket.socket, *, is_own: bool = False) -> None:
        try:
            where = _PROXY_PLACE if is_own else self._destination_of(accepted)
            target = _PROXY if where == _PROXY_PLACE else self._destination(*where)[0].text
            reason = f"{self._bounds.connections} connections of the module are open, and there may not be more"
            self._refuse(EgressRefusedError(target, reason))
        except EgressRefusedError as refused:
            self._refuse(refused)
        except OSError:
            pass  # it is gone already
        finally:
            reset(accepted)

    def _refuse(self, refused: EgressRefusedError) -> None:
        self._egress_context.record("direct").refuse(refused)
        self._egress_context.deny(refused)

    # -- names -----------------------------------------------------------------------------------

    def _look_up(self, name: str) -> IPv4Address | None:
        if not self._rules.knows(name):
            return None
        return self._names.address_of(name, keep=self._rules.names(name))

    def _decision_on(self, name: str) -> asyncio.Future[None] | None:
        decision = self._decisions.get(name)
        if decision is None and self._rules.spell(name):
            decision = self._decisions[name] = asyncio.create_task(self._decide_on(name))
        return None if decision is None or decision.done() else decision

    async def _decide_on(self, name: str) -> None:
        """Look for a real address of a name, in time for the answer to the first who asks."""
        address = await self._egress_context.dialer.public_address_of(name, self._bounds.real_address_seconds)
        if address is None:
            return
        others = self._names.names_of(address)
        # At these ports TLS or HTTP says which of several names a connection is for. Elsewhere anything may be spoken.
        if not others or all(self._rules.ports_of(each) <= set(PUBLIC_PORTS) for each in (name, *others)):
            self._names.give_real(name, address)

    def _unknown_name(self, name: str) -> None:
        lacks = [] if self._rules.knows(name) else [f"{name}:{DEFAULT_PORT}"]
        reason = "it was not granted" if lacks else "too many names were looked up"
        self._egress_context.deny(EgressRefusedError(name, reason, lacks=lacks, operation="look up"))
