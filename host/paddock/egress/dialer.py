"""Connect to a granted destination: look its name up once, and connect to an address that was found to be right.

A name leads to public addresses only, unless an address is granted by itself. What was checked is what is connected to,
so that a second answer of a name server changes nothing. All of it, every address that is tried included, has one
deadline. Knows nothing of what is said on the connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Protocol

import anyio
import anyio.to_thread

from paddock.egress.addresses import why_not_public
from paddock.egress.refusal import RefusedError, line_of
from paddock.egress.rules import NetRules
from paddock.egress.stream import why
from paddock.plan.host_name import Destination

Address = IPv4Address | IPv6Address

_MAX_TRIED: Final = 8
_LOOKUPS_AT_ONCE: Final = 4  # threads of one module; a name server that answers nothing holds each for half a minute


class DialError(Exception):
    """Raised when a destination is allowed and cannot be reached; `timed_out` says that it took too long."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.timed_out = timed_out


class Resolver(Protocol):
    """Whoever knows the addresses of names."""

    async def __call__(self, name: str) -> Sequence[Address]:
        """Return the addresses of a name, the best first.

        Raises:
            OSError: It has none, or nobody could be asked.
        """
        ...


class SystemResolver:
    """Asks the system, a few names at a time, and for each of them once however many want to know it.

    A question outlives whoever stops waiting for its answer, since the thread that asks it does: they are counted.
    """

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(_LOOKUPS_AT_ONCE)
        self._asked: dict[str, asyncio.Task[Sequence[Address]]] = {}

    async def __call__(self, name: str) -> Sequence[Address]:
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._ask(name))
            task.add_done_callback(partial(self._answered, name))
        return await asyncio.shield(task)

    def close(self) -> None:
        """Wait for no answer any more."""
        for task in tuple(self._asked.values()):
            task.cancel()

    def _answered(self, name: str, task: asyncio.Task[Sequence[Address]]) -> None:
        del self._asked[name]
        if not task.cancelled():
            task.exception()  # known, should nobody wait any more

    async def _ask(self, name: str) -> Sequence[Address]:
        ask = partial(socket.getaddrinfo, name, None, type=socket.SOCK_STREAM)
        found = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._limiter)
        return [ip_address(where[0]) for family, *_, where in found if family in (socket.AF_INET, socket.AF_INET6)]


class Dialer:
    """Makes the connections of one module."""

    def __init__(self, rules: NetRules, resolve: Resolver, seconds: float) -> None:
        self._rules = rules
        self._resolve = resolve
        self._seconds = seconds

    async def dial(self, destination: Destination) -> tuple[socket.socket, Address]:
        """Return a non-blocking socket that is connected to a granted destination, and the address it is connected to.

        Raises:
            RefusedError: A name leads to where names may not lead.
            DialError: It cannot be reached.
        """
        deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(deadline):
                return await _connected(await self._checked(destination), destination.port, deadline)
        except TimeoutError:
            reason = f"no connection to {destination.text} within {self._seconds:g} s"
            raise DialError(reason, timed_out=True) from None

    async def _checked(self, destination: Destination) -> Sequence[Address]:
        if not isinstance(destination.host, str):
            return (destination.host,)
        try:
            found = tuple(dict.fromkeys(_canonical(address) for address in await self._resolve(destination.host)))
        except OSError as error:
            raise DialError(f"no address of {destination.host} was found: {error.strerror or error}") from None
        except UnicodeError:  # of the codec that names go through, which knows fewer names than there are
            raise DialError(f"no address of {destination.host} can be looked up") from None
        allowed = [address for address in found if self._may_lead_to(address, destination.port)]
        if allowed:
            return allowed[:_MAX_TRIED]
        if not found:
            raise DialError(f"{destination.host} has no address")
        literal = Destination(found[0], destination.port).text
        reason = f"it leads to {found[0]}, which is {why_not_public(found[0])}; such an address is granted by itself"
        raise RefusedError(destination.text, reason, grant=line_of(literal))

    def _may_lead_to(self, address: Address, port: int) -> bool:
        return why_not_public(address) is None or self._rules.rule_for(Destination(address, port)) is not None


async def _connected(addresses: Sequence[Address], port: int, deadline: float) -> tuple[socket.socket, Address]:
    if len(addresses) == 1:
        try:
            return await _connect(addresses[0], port), addresses[0]
        except OSError as error:
            raise DialError(f"no connection to {addresses[0]}: {why(error)}") from None
    problem = ""
    for tried, address in enumerate(addresses):
        left = deadline - asyncio.get_running_loop().time()
        try:
            # Each has its share, so that one that drops packets does not keep the others from being tried.
            async with asyncio.timeout(left / (len(addresses) - tried)):
                return await _connect(address, port), address
        except TimeoutError:
            problem = f"{address}: no answer"
        except OSError as error:
            problem = f"{address}: {why(error)}"
    raise DialError(f"no connection, lastly to {problem}")


async def _connect(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    except BaseException:
        sock.close()
        raise
    return sock


def _canonical(address: Address) -> Address:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
