"""What a request may pass on is settled when it arrives: no wait, restart or detour makes a right of what was shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.rpc.call_queue import MAX_HANDED
from paddock.rpc.peer import Encoded, Handle, Peer
from paddock.token_bucket import TokenBucket
from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.protocol import Frame, Kind
from support.scripted_end import ASYNC

from .conftest import Allowed, Network, mirror
from .scripted_worker import ScriptedWorker, until

_NONE = Allowed(set())


class _NextLife:
    """Brings the owner of a handle back as another worker, when a test lets it."""

    def __init__(self, network: Network) -> None:
        self.may_come = asyncio.Event()
        self.worker: ScriptedWorker
        self.peer: Peer
        self._network = network

    async def __call__(self, handle: Handle, method: str) -> None:
        await self.may_come.wait()
        self.peer, self.worker = await self._network.connect("taker", authority=_NONE)
        handle.rebind(await self._network.handle_of(self.worker, self.worker.own(77, {"use": ASYNC})))

    async def request(self) -> Frame:
        """Return the request that the next life is given."""
        await until(lambda: hasattr(self, "worker"))
        return await self.worker.request_from_host()


class _Wash:
    """An object that one worker is shown, and a worker that it is passed to, which comes and goes."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.life = _NextLife(network)
        network.failure_policy.on_revive = self.life

    async def set_up(self, may_call: bool, work: TokenBucket | None = None) -> _Wash:
        network = self.network
        _, self.owning = await network.connect("owner")
        self.giver, self.giving = await network.connect("giver", authority=_NONE, work=work)
        self.taker, self.taking = await network.connect("taker", authority=_NONE)
        self.shown = await network.lend(self.owning, self.owning.own(5, {"work": ASYNC}), self.giver, may_call=may_call)
        self.target = await network.lend(self.taking, self.taking.own(8, {"use": ASYNC}), self.giver)
        return self

    async def end_taker(self) -> None:
        self.taking.close()
        await until(lambda: "taker" in self.network.failure_policy.lost)

    async def let_go(self) -> None:
        """Have the giver forget what it was shown."""
        handle = self.giver.grant(self.shown).handle
        times = self.giver.grant(self.shown).times
        self.giving.write(self.giving.connection.send_release(self.shown, times))
        await until(lambda: self.giver.granted(handle) is None)

    async def calls(self, worker: ScriptedWorker, id: int, **options: Any) -> bool:
        """Return whether `worker` may call what it holds as `id`; the owner answers."""
        call = worker.call_object(id, **options)
        await worker.round_trip()
        await self.owning.round_trip()
        for request in self.owning.heard(Kind.REQUEST):
            self.owning.frames.remove(request)
            self.owning.respond(request.id)
        try:
            await worker.answer(call)
        except RefusedError:
            return False
        return True

    async def next_life_calls(self) -> bool:
        """Have the taker come back, and return whether it may call what the call that waited for it passes on."""
        self.life.may_come.set()
        request = await self.life.request()
        return await self.calls(self.life.worker, request.handles[0].id, parent=request.id)


@pytest.mark.parametrize("may_call", [False, True])
async def test_a_restart_washes_no_right_into_what_was_shown(network: Network, may_call: bool) -> None:
    wash = await _Wash(network).set_up(may_call)
    await wash.end_taker()
    wash.giving.call_object(wash.target, 0, wash.giving.foreign(wash.shown))
    await until(lambda: network.failure_policy.asked)
    await wash.let_go()
    assert await wash.next_life_calls() is may_call


@pytest.mark.parametrize("may_call", [False, True])
async def test_a_call_made_again_washes_no_right(network: Network, may_call: bool) -> None:
    wash = await _Wash(network).set_up(may_call)
    network.failure_policy.makes_again()
    wash.giving.call_object(wash.target, 0, wash.giving.foreign(wash.shown))
    await wash.taking.request_from_host()
    await wash.end_taker()
    await wash.let_go()
    assert await wash.next_life_calls() is may_call


@pytest.mark.parametrize("may_call", [False, True])
async def test_a_call_that_waits_for_its_turn_washes_no_right(network: Network, may_call: bool) -> None:
    wash = await _Wash(network).set_up(may_call)
    for _ in range(MAX_HANDED):
        wash.giving.call_object(wash.target)
    handed = [await wash.taking.request_from_host() for _ in range(MAX_HANDED)]
    wash.giving.call_object(wash.target, 0, wash.giving.foreign(wash.shown))
    await until(lambda: wash.taker.waiting)
    await wash.let_go()
    wash.taking.respond(handed[0].id)
    request = await wash.taking.request_from_host()
    assert await wash.calls(wash.taking, request.handles[0].id, parent=request.id) is may_call


@pytest.mark.parametrize("may_call", [False, True])
async def test_a_request_that_is_put_off_washes_no_right(network: Network, may_call: bool) -> None:
    wash = await _Wash(network).set_up(may_call, work=TokenBucket(per_second=20_000, at_once=1_000))
    wash.giving.request(0, 7, list(range(10_000)))
    wash.giving.call_object(wash.target, 0, wash.giving.foreign(wash.shown))
    await until(lambda: len(wash.giver.incoming) == 1)
    assert wash.giver.admission.is_behind
    await wash.let_go()
    request = await wash.taking.request_from_host()
    assert await wash.calls(wash.taking, request.handles[0].id, parent=request.id) is may_call


async def test_a_right_that_waited_ends_with_its_call(network: Network) -> None:
    wash = await _Wash(network).set_up(True)
    await wash.end_taker()
    id = wash.giving.call_object(wash.target, 0, wash.giving.foreign(wash.shown))
    wash.life.may_come.set()
    request = await wash.life.request()
    entry = request.handles[0].id
    assert await wash.calls(wash.life.worker, entry, parent=request.id)
    wash.life.worker.respond(request.id)
    await wash.giving.answer(id)
    assert not await wash.calls(wash.life.worker, entry)


async def test_a_loan_that_ended_while_its_call_waited_is_no_right(network: Network) -> None:
    """A worker that was lent an object for one call lends it on, and that call ends before the object arrives."""
    wash = await _Wash(network).set_up(False)
    lender, lending = await network.connect("lender")
    lent = await network.lend(wash.giving, wash.giving.own(6, {"use": ASYNC}), lender)
    handle = wash.giver.grant(wash.shown).handle
    mirror(lender, Encoded(b"\xc0", (handle,)), may_call=True)
    lenders = (await lending.take(Kind.MIRROR)).handles[0].id
    outer = lending.call_object(lent, 0, lending.foreign(lenders))
    request = await wash.giving.request_from_host()
    assert await wash.calls(wash.giving, request.handles[0].id, parent=request.id)
    await wash.end_taker()
    wash.giving.call_object(wash.target, 0, wash.giving.foreign(request.handles[0].id))
    await until(lambda: network.failure_policy.asked)
    wash.giving.respond(request.id)
    await lending.answer(outer)
    wash.life.may_come.set()
    arrived = await wash.life.request()
    assert not await wash.calls(wash.life.worker, arrived.handles[0].id)


@pytest.mark.parametrize("may_call", [False, True])
async def test_the_application_passes_on_no_more_than_it_was_brought(network: Network, may_call: bool) -> None:
    wash = await _Wash(network).set_up(may_call)
    go_on = asyncio.Event()
    target = wash.giver.grant(wash.target).handle
    assert isinstance(target, Handle)

    async def relay(brought: object) -> None:
        await go_on.wait()
        await network.host_calls.call(target, 0, network.marshaller.encode([[brought], {}]))

    mirror(wash.giver, network.marshaller.encode(relay, share=True), may_call=True)
    entry = (await wash.giving.take(Kind.MIRROR)).handles[0].id
    wash.giving.call_object(entry, 0, wash.giving.foreign(wash.shown))
    await wash.giving.round_trip()
    await wash.let_go()
    go_on.set()
    request = await wash.taking.request_from_host()
    assert await wash.calls(wash.taking, request.handles[0].id, parent=request.id) is may_call


@pytest.mark.parametrize("may_call", [False, True])
async def test_the_application_calls_nothing_for_who_may_not(network: Network, may_call: bool) -> None:
    wash = await _Wash(network).set_up(may_call)
    failed: list[type[Exception] | None] = []

    async def run(brought: Any) -> None:
        try:
            await brought.work()
        except Exception as error:
            failed.append(type(error))
        else:
            failed.append(None)

    mirror(wash.giver, network.marshaller.encode(run, share=True), may_call=True)
    entry = (await wash.giving.take(Kind.MIRROR)).handles[0].id
    asked = wash.giving.call_object(entry, 0, wash.giving.foreign(wash.shown))
    if may_call:
        wash.owning.respond((await wash.owning.request_from_host()).id)
    await wash.giving.answer(asked)
    assert failed == [None if may_call else RefusedError]


async def test_what_the_application_adds_itself_may_be_called(network: Network) -> None:
    wash = await _Wash(network).set_up(False)
    target = wash.giver.grant(wash.target).handle
    assert isinstance(target, Handle)

    async def relay() -> None:
        await network.host_calls.call(target, 0, network.marshaller.encode([[lambda: "said"], {}], share=True))

    mirror(wash.giver, network.marshaller.encode(relay, share=True), may_call=True)
    entry = (await wash.giving.take(Kind.MIRROR)).handles[0].id
    wash.giving.call_object(entry)
    request = await wash.taking.request_from_host()
    assert await wash.taking.answer(wash.taking.call_object(request.handles[0].id, parent=request.id)) == "said"


@pytest.mark.parametrize("may_call", [False, True])
async def test_the_answer_of_a_next_life_gives_what_that_life_may_give(network: Network, may_call: bool) -> None:
    wash = await _Wash(network).set_up(False)
    network.failure_policy.makes_again()
    id = wash.giving.call_object(wash.target)
    await wash.taking.request_from_host()
    await wash.end_taker()
    wash.life.may_come.set()
    request = await wash.life.request()
    handle = wash.giver.grant(wash.shown).handle
    mirror(wash.life.peer, Encoded(b"\xc0", (handle,)), may_call=may_call)
    known = (await wash.life.worker.take(Kind.MIRROR)).handles[0].id
    wash.life.worker.respond(request.id, wash.life.worker.foreign(known))
    answered = await wash.giving.answer(id)
    assert await wash.calls(wash.giving, answered.id) is may_call


async def test_an_answer_may_name_what_its_giver_lets_go_of_at_once(network: Network) -> None:
    """The host reads an answer a turn later than it comes; what it refers to is settled when it comes."""
    wash = await _Wash(network).set_up(True)
    target = wash.giver.grant(wash.target).handle
    assert isinstance(target, Handle)
    handle = wash.giver.grant(wash.shown).handle
    asked = asyncio.ensure_future(
        network.host_calls.call(target, 0, network.marshaller.encode([[network.marshaller.object_of(handle)], {}]))
    )
    request = await wash.taking.request_from_host()
    entry = request.handles[0].id
    body, entries = wash.taking.body(wash.taking.foreign(entry))
    connection = wash.taking.connection
    wash.taking.write(connection.send_response(request.id, body, entries), connection.send_release(entry, 1))
    answer = await asked
    assert answer.handles == (handle,)
    assert not network.failure_policy.violations
