"""A router with scripted workers around it, and nothing of a kernel behind it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from paddock.rpc.admission import PeerLimits
from paddock.rpc.calls import IncomingCall, RoutedCall
from paddock.rpc.host_calls import HostCalls, StandInCaller
from paddock.rpc.marshal import Marshaller
from paddock.rpc.open_calls import FOREVER
from paddock.rpc.peer import AnyHandle, Encoded, Handle, Peer
from paddock.rpc.rights import allow_any, allow_none
from paddock.rpc.router import Router
from paddock.rpc.tasks import SessionTasks
from paddock.token_bucket import TokenBucket
from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.protocol import MAX_FRAME_BYTES, Connection, Kind, RemoteProtocolError, Role
from paddock_sdk.protocol.description import Flavour
from support.scripted_end import ASYNC

from .scripted_worker import ScriptedWorker, until

_SECONDS = 60  # for one whole test; hit only by a hang


class NeverShared:
    """Stands for what the host runs on."""


class ScriptedService:
    """The host's own methods: what a test puts under a number, and nil for everything else."""

    def __init__(self, router: Router) -> None:
        self.methods: dict[int, Callable[[IncomingCall, Encoded], None]] = {}
        self.notices: list[tuple[str, int, Encoded]] = []
        self._router = router

    def serve(self, call: IncomingCall, method: int, message: Encoded) -> None:
        if method in self.methods:
            self.methods[method](call, message)
        else:
            self._router.respond(call, self._router.marshaller.encode(None))

    def refuse(self, peer: Peer, handle: AnyHandle) -> BaseException:
        return RefusedError(f"{peer.name} may not")

    def forget(self, peer: Peer) -> None:
        pass

    def notice(self, peer: Peer, method: int, message: Encoded) -> None:
        self.notices.append((peer.name, method, message))


class ScriptedAfterlife:
    """Decides about lost calls as a test says, and keeps what it was told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int]] = []
        self.overdue: list[tuple[str, RoutedCall]] = []
        self.was_overdue = asyncio.Event()
        self.violations: list[tuple[str, str]] = []
        self.lost: list[str] = []
        self.on_revive: Callable[[Handle, str], Awaitable[Encoded | None]] = self._refuse
        self.on_answer_for: Callable[[RoutedCall, str], Awaitable[Encoded | None]] = self._refuse

    async def revive(self, handle: Handle, method: str) -> Encoded | None:
        self.asked.append(("revive", method, 0))
        return await self.on_revive(handle, method)

    async def answer_for(self, call: RoutedCall, method: str, tries: int) -> Encoded | None:
        self.asked.append(("answer_for", method, tries))
        return await self.on_answer_for(call, method)

    def on_overdue(self, call: RoutedCall, method: str) -> None:
        self.overdue.append((call.owner.name, call))
        self.was_overdue.set()

    def on_violation(self, peer: Peer, error: RemoteProtocolError) -> None:
        self.violations.append((peer.name, str(error)))

    def on_lost(self, peer: Peer) -> None:
        self.lost.append(peer.name)

    def makes_again(self) -> None:
        """Have a lost call made again, of the next life of its owner."""

        async def again(call: RoutedCall, method: str) -> None:
            return None

        self.on_answer_for = again

    async def _refuse(self, *asked: Any) -> Encoded | None:
        raise ConnectionError("nothing stands in for it")


class Allowed:
    """Lets a worker call everything, or only what is named, and of what it is lent all members or those named."""

    def __init__(self, points: set[str] | None = None, lent: set[str] | None = None) -> None:
        self.points = points
        self.lent = lent

    def may_call(self, point: str, name: str | None) -> bool:
        return self.points is None or point in self.points

    def note_call(self, point: str, name: str | None) -> None:
        pass

    def may_use_lent(self, point: str, member: str) -> bool:
        return self.lent is None or member in self.lent


def mirror(peer: Peer, change: Encoded, *, may_call: bool) -> None:
    """Tell a worker of a change of shared state."""
    entries = peer.send(change.handles, allow_any if may_call else allow_none)
    peer.channel.mirror(99, change.body, entries)


class Network:
    """One router and the workers connected to it."""

    def __init__(self, tasks: SessionTasks, stack: contextlib.ExitStack) -> None:
        self.marshaller = Marshaller((NeverShared,))
        self.failure_policy = ScriptedAfterlife()
        self.router = Router(self.marshaller, tasks, self.failure_policy, ScriptedService)
        assert isinstance(self.router.host_methods, ScriptedService)
        self.service = self.router.host_methods
        self.host_calls = HostCalls(self.router)
        self._stack = stack
        self.workers: dict[Peer, ScriptedWorker] = {}
        self.problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.problems.append(context))

    async def connect(
        self,
        name: str,
        kind: str = "tool",
        *,
        runtime_max: float = FOREVER,
        call_max: float = FOREVER,
        authority: Allowed | None = None,
        send_limit: int = MAX_FRAME_BYTES,
        work: TokenBucket | None = None,
        open_bytes_max: int = 64 << 20,
        unread_seconds: float = 60.0,
    ) -> tuple[Peer, ScriptedWorker]:
        """Connect a worker and greet it."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        worker = ScriptedWorker(theirs)
        self._stack.callback(worker.close)
        work = work or TokenBucket(per_second=1 << 18, at_once=1 << 21)
        answers = TokenBucket(per_second=1 << 18, at_once=1 << 21)
        rights = authority or Allowed()
        caller = partial(StandInCaller, self.host_calls)
        connection = Connection(Role.HOST, send_limit=send_limit)
        limits = PeerLimits(runtime_max, call_max, 2048, work, answers, open_bytes_max, unread_seconds)
        peer = Peer(name, kind, self.router, caller, rights, connection, limits)
        await peer.channel.open(ours)
        self._stack.callback(peer.channel.close)
        self.workers[peer] = worker
        worker.hello()
        assert await peer.hello is not None
        peer.channel.write(peer.channel.connection.send_welcome(b""))
        await worker.take(Kind.WELCOME)
        return peer, worker

    async def pair(
        self, members: dict[str, Flavour] | None = None, **options: Any
    ) -> tuple[Peer, ScriptedWorker, Peer, ScriptedWorker, int]:
        """Connect an asker, and an answerer with some options that lends it an object; return both and its number."""
        requester, asking = await self.connect("asker")
        peer, answering = await self.connect("answerer", **options)
        lent = answering.own(5, members or {"work": ASYNC})
        return requester, asking, peer, answering, await self.lend(answering, lent, requester)

    async def close(self) -> None:
        """End every connection and everything that still runs."""
        self._stack.close()
        await until(lambda: len(self.failure_policy.lost) == len(self.workers))

    async def lend(self, owner: ScriptedWorker, lent: Any, to: Peer, *, may_call: bool = True) -> int:
        """Have the host hold an object of `owner`, and hand it to another worker; return the number it has there.

        The other worker hears of it in a mirror change, which is taken.
        """
        handle = await self.handle_of(owner, lent)
        mirror(to, Encoded(b"\xc0", (handle,)), may_call=may_call)
        change = await self.workers[to].take(Kind.MIRROR)
        return change.handles[0].id

    async def handle_of(self, owner: ScriptedWorker, lent: Any) -> Handle:
        """Return the host's handle of an object that `owner` sends it."""
        held: list[Encoded] = []

        def hold(call: IncomingCall, message: Encoded) -> None:
            held.append(message)
            self.router.respond(call, self.marshaller.encode(None))

        self.service.methods[77] = hold
        await owner.ask(0, 77, lent)
        del self.service.methods[77]  # which holds the message
        handle = held.pop().handles[0]
        assert isinstance(handle, Handle)
        return handle


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    with contextlib.ExitStack() as stack:
        async with SessionTasks() as tasks:
            made = Network(tasks, stack)
            with anyio.fail_after(_SECONDS):
                yield made
            await made.close()
    assert not made.problems, made.problems
