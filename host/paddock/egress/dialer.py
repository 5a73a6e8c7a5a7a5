"""Connect to a granted destination: look its name up once, and connect to an address that was checked.

A name leads to public addresses only, unless an address is granted by itself. A name that only `public` allows leads
neither to this machine nor to its neighbours. The connection goes to the very address that was checked, so that a
second answer of a name server changes nothing. All of it, including every address that is tried, has one deadline. The
dialer does not know what is sent on the connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

import anyio
import anyio.to_thread

from paddock.egress.addresses import carried_in, is_public, why_not_public
from paddock.egress.errors import DialError, EgressRefusedError
from paddock.egress.neighbours import why_near
from paddock.egress.rules import NetRules
from paddock.egress.stream import why
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import DEFAULT_PORT

Address = IPv4Address | IPv6Address

_MAX_TRIED: Final = 8
_MAX_LOOKED_AT: Final = 64  # of the addresses that a name has; an answer has room for thousands
# Where clouds keep their credentials, as most do at link-local addresses.
_OF_CLOUDS: Final = frozenset(
    map(ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd20:ce::254"))
)
# RFC 8215: for networks that translate to IPv4 themselves. None of it is public, so only grants by name meet it.
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_LOOKUPS_AT_ONCE: Final = 4  # threads of one module; a name server that answers nothing holds each for half a minute


NameResolver = Callable[[str], Awaitable[Sequence[Address]]]
"""Returns the addresses of a name, the best first; raises an `OSError` if it has none, or no server could be asked."""

WhyNear = Callable[[Address], str | None]
"""Returns what `why_near` does."""


class _Turns:
    """Limits how many callers ask the system at once: each of them takes a thread."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(_LOOKUPS_AT_ONCE)
        self.threads = anyio.CapacityLimiter(_LOOKUPS_AT_ONCE)


class _Question:
    """The lookup of one name; `task` has the answer."""

    def __init__(self, name: str, turns: _Turns) -> None:
        self.name = name
        self._waiting = 0
        self._has_turn = False
        self._turns = turns
        self.task = asyncio.create_task(self._ask())

    @property
    def is_abandoned(self) -> bool:
        """Whether it can be dropped: nothing waits for the answer, and no thread has begun to ask."""
        return not self._waiting and not self._has_turn

    async def answer(self) -> Sequence[Address]:
        """Return the answer, which others may wait for too."""
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self._waiting -= 1

    async def _ask(self) -> Sequence[Address]:
        async with self._turns.free:
            self._has_turn = True
            ask = partial(socket.getaddrinfo, self.name, None, type=socket.SOCK_STREAM)
            found = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._turns.threads)
        return [ip_address(where[0]) for family, *_, where in found if family in (socket.AF_INET, socket.AF_INET6)]


class SystemResolver:
    """Asks the system, a few names at a time, and each name once for all callers that want to know it.

    Questions are tasks of the resolver's. A question in a thread outlives callers that stop waiting for it, since the
    thread does; such questions are counted. Any other question ends with its last caller, so that there are never more
    questions than callers, and a few. `aclose` ends them all.
    """

    def __init__(self) -> None:
        self._turns = _Turns()
        self._asked: dict[str, _Question] = {}

    async def __call__(self, name: str) -> Sequence[Address]:
        question = self._asked.get(name)
        if question is None:
            question = self._asked[name] = _Question(name, self._turns)
            question.task.add_done_callback(partial(self._answered, question))
        try:
            return await question.answer()
        finally:
            if question.is_abandoned:
                question.task.cancel()
                self._forget(question)  # at once: the next caller must not wait for a cancelled question

    async def aclose(self) -> None:
        """Stop waiting for answers."""
        ending = [question.task for question in self._asked.values()]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)

    def _answered(self, question: _Question, task: asyncio.Task[Sequence[Address]]) -> None:
        self._forget(question)
        if not task.cancelled():
            task.exception()  # retrieved, should no caller wait any more

    def _forget(self, question: _Question) -> None:
        if self._asked.get(question.name) is question:
            del self._asked[question.name]


class Dialer:
    """Makes the connections of one module."""

    def __init__(self, rules: NetRules, resolve: NameResolver, seconds: float, neighbours: WhyNear = why_near) -> None:
        self._why_near = neighbours
        self._rules = rules
        self._resolve = resolve
        self._seconds = seconds

    async def dial(self, destination: Destination) -> tuple[socket.socket, Address]:
        """Return a non-blocking socket that is connected to a granted destination, and its address.

        Raises:
            RefusedError: a name leads to a forbidden address.
            DialError: it cannot be reached.
        """
        deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(deadline):
                return await _connected(await self._checked(destination), destination.port, deadline)
        except TimeoutError:
            reason = f"no connection to {destination.text} within {self._seconds:g} s"
            raise DialError(reason, timed_out=True) from None

    async def public_address_of(self, name: str, seconds: float) -> IPv4Address | None:
        """Return an address of a name, to be shown as the name's and not to be connected to.

        None unless all addresses of the name are public and refused by nobody, and known in time; never one that a rule
        names itself.
        """
        try:
            async with asyncio.timeout(seconds):
                found = [_canonical(address) for address in await self._resolve(name)]
            for one in found:
                self._refuse_by_policy(one, Destination(name, DEFAULT_PORT))
        except (OSError, UnicodeError, EgressRefusedError):
            return None
        if len(found) > _MAX_LOOKED_AT or not all(map(is_public, found)):
            return None
        return next((one for one in found if isinstance(one, IPv4Address) and not self._rules.names(one)), None)

    async def _checked(self, destination: Destination) -> Sequence[Address]:
        if not isinstance(destination.host, str):
            self._refuse_by_policy(destination.host, destination)
            return (destination.host,)
        by = self._rules.rule_for(destination)
        # With its last dot a name is whole: the system does not try it in the domains of its own network.
        name = f"{destination.host}." if by is not None and by.is_public else destination.host
        try:
            found = tuple(dict.fromkeys(_canonical(address) for address in await self._resolve(name)))
        except OSError as error:
            raise DialError(f"no address of {destination.host} was found (DNS): {error.strerror or error}") from None
        except UnicodeError:  # of the codec that names go through, which knows fewer names than there are
            raise DialError(f"no address of {destination.host} can be looked up") from None
        if not found:
            raise DialError(f"{destination.host} has no address")
        allowed: list[Address] = []
        refused: list[EgressRefusedError] = []
        for address in found[:_MAX_LOOKED_AT]:
            try:
                self._refuse_by_policy(address, destination)
                self._refuse_inside(address, destination)
            except EgressRefusedError as error:
                refused.append(error)
                continue
            allowed.append(address)
            if len(allowed) == _MAX_TRIED:
                break
        if not allowed:
            raise refused[0]
        return allowed

    def _refuse_by_policy(self, address: Address, destination: Destination) -> None:
        by_place = ((place, self._rules.refusal_of(place)) for place in _places(address))
        place, refused = next(((place, refused) for place, refused in by_place if refused is not None), (address, None))
        if refused is not None:
            to = "it is" if place == destination.host else f"it leads to {place}, which is"
            raise EgressRefusedError(destination.text, f"{to} in {refused.network}, which {refused.by} refuses")

    def _refuse_inside(self, address: Address, destination: Destination) -> None:
        """Refuse an address that a name may not lead to."""
        if self._rules.rule_for(Destination(address, destination.port)) is not None:
            return
        by = self._rules.rule_for(destination)
        is_by_public = by is not None and by.is_public
        what = why_not_public(address)
        if what is not None:
            # Not to link-local ones, where clouds keep their credentials, under any grant.
            if self._rules.names_lead_inside and not any(
                one.is_link_local or one.is_multicast or one in _OF_CLOUDS for one in _places(address)
            ):
                return
            literal = Destination(address, destination.port).text
            reason = f"it leads to {address}, which is {what}; such an address is granted by itself"
            raise EgressRefusedError(
                destination.text, reason, lacks=[literal] if is_by_public else [destination.text, literal]
            )
        if not is_by_public:
            return
        try:
            found = ((place, self._why_near(place)) for place in _places(address))
            place, near = next(((place, near) for place, near in found if near is not None), (address, None))
        except OSError as error:
            reason = f"it leads to {address}, and whether that is of this machine's networks cannot be found out"
            raise EgressRefusedError(destination.text, f"{reason}: {why(error)}", lacks=[destination.text]) from None
        if near is not None:
            reason = f"it leads to {place}, which is {near}; `public` does not lead there"
            raise EgressRefusedError(destination.text, reason, lacks=[destination.text])


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


def _places(address: Address) -> tuple[Address, ...]:
    """Return an address, and the one that it carries: a packet for it may end at either."""
    inner = carried_in(address)
    if inner is None and address in _LOCAL_NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return (address,) if inner is None else (address, inner)


def _canonical(address: Address) -> Address:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
