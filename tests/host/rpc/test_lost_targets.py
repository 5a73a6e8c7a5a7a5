"""What becomes of a call whose target goes away: the failure policy decides, the router carries it out."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from paddock.rpc.calls import RoutedCall
from paddock.rpc.peer import CallPolicy, Encoded, Handle, Peer
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.frames import Buffer
from support.scripted_end import ASYNC

from .conftest import Network, mirror
from .scripted_worker import ScriptedWorker, until


class _NextLife:
    """Brings the owner of a handle back as a fresh worker, as a restart does."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.workers: list[ScriptedWorker] = []

    async def number(self, life: int) -> ScriptedWorker:
        """Return the worker of the given life after the first, once it is there."""
        await until(lambda: len(self.workers) >= life)
        return self.workers[life - 1]

    async def __call__(self, handle: Handle, method: str) -> None:
        _, worker = await self.network.connect("answerer")
        handle.rebind(await self.network.handle_of(worker, worker.own(77, {"work": ASYNC})))
        self.workers.append(worker)


async def test_a_call_in_flight_gets_what_stands_in_for_the_answer(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()

    async def stand_in(call: RoutedCall, method: str) -> Encoded:
        return network.marshaller.encode({"instead": method})

    network.failure_policy.on_answer_for = stand_in
    id = asking.call_object(target)
    await answering.request_from_host()
    answering.close()
    assert await asking.answer(id) == {"instead": "work"}
    assert network.failure_policy.asked == [("answer_for", "work", 1)]


async def test_a_call_of_an_object_whose_owner_is_gone_revives_it_first(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    network.failure_policy.on_revive = next_life = _NextLife(network)
    answering.close()
    await until(lambda: "answerer" in network.failure_policy.lost)
    id = asking.call_object(target, 0, "argument", asking.own(31))
    await until(lambda: next_life.workers)
    (revived,) = next_life.workers
    request = await revived.request_from_host()
    assert request.target == 77
    assert revived.value(request)[0][0] == "argument"
    assert request.handles[0].description, "the new life has never heard of the argument"
    revived.respond(request.id, "from the next life")
    assert await asking.answer(id) == "from the next life"
    assert network.failure_policy.asked == [("revive", "work", 0)]


async def test_a_repeated_call_goes_to_the_next_life_and_counts_lives(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    network.failure_policy.on_revive = next_life = _NextLife(network)
    network.failure_policy.makes_again()
    id = asking.call_object(target, 0, "again")
    await answering.request_from_host()
    answering.close()
    async with asyncio.timeout(60):
        for life in (1, 2):
            revived = await next_life.number(life)
            request = await revived.request_from_host()
            assert revived.value(request) == [["again"], {}]
            if life == 1:
                next_life.workers[-1].close()
    next_life.workers[-1].respond(request.id, "at last")
    assert await asking.answer(id) == "at last"
    assert network.failure_policy.asked == [
        ("answer_for", "work", 1),
        ("revive", "work", 0),
        ("answer_for", "work", 2),
        ("revive", "work", 0),
    ]


async def test_a_call_made_again_still_lends_what_its_caller_lent(network: Network) -> None:
    """What the caller may call, the callee may call for it: in the second life as in the first."""
    requester, asking = await network.connect("asker", "orchestrator")
    _, answering = await network.connect("answerer", "context")
    _, providing = await network.connect("provider", "provider")
    target = await network.lend(answering, answering.own(5, {"work": ASYNC}), requester)
    provider = await network.handle_of(providing, providing.own(9, {"get_info": ASYNC}))
    provider.mounted = ("providers", "mock")
    mirror(requester, Encoded(b"\xc0", (provider,)), may_call=True)
    lent = (await asking.take(Kind.MIRROR)).handles[0]
    network.failure_policy.on_revive = next_life = _NextLife(network)
    network.failure_policy.makes_again()
    id = asking.call_object(target, 0, asking.foreign(lent.id))
    await answering.request_from_host()
    answering.close()
    await until(lambda: next_life.workers)
    (revived,) = next_life.workers
    request = await revived.request_from_host()
    revived.call_object(request.handles[0].id, parent=request.id)
    assert (await providing.request_from_host()).target == 9
    revived.respond(request.id)
    await asking.answer(id)


async def test_a_caller_may_give_up_while_its_target_is_revived(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slowly(handle: Handle, method: str) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    network.failure_policy.on_revive = slowly
    answering.close()
    async with asyncio.timeout(60):
        await until(lambda: "answerer" in network.failure_policy.lost)
        id = asking.call_object(target)
        await begun.wait()
        asking.write(asking.connection.send_cancel(id))
        await ended.wait()
    await asking.round_trip()
    assert asking.connection.outgoing == 0


async def test_nothing_is_asked_of_the_afterlife_for_a_call_that_was_given_up(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    id = asking.call_object(target)
    await answering.request_from_host()
    asking.write(asking.connection.send_cancel(id))
    await answering.take(Kind.CANCEL)
    answering.close()
    await until(lambda: "answerer" in network.failure_policy.lost)
    assert network.failure_policy.asked == []


async def test_a_call_that_was_admitted_is_released_however_it_ends(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    handle = await network.handle_of(answering, answering.again(5))
    open_calls: list[int] = []

    def admit(method: str, message: Encoded, caller: Peer | None) -> int:
        number = max(open_calls, default=0) + 1
        open_calls.append(number)
        return number

    handle.follow(CallPolicy(admit, release=open_calls.remove))
    well, badly, given_up, _ = (asking.call_object(target, 0, number) for number in range(4))
    requests = [await answering.request_from_host() for _ in range(4)]
    assert len(open_calls) == 4
    answering.respond(requests[0].id)
    await asking.answer(well)
    answering.fail(requests[1].id, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await asking.answer(badly)
    asking.write(asking.connection.send_cancel(given_up))
    await until(lambda: len(open_calls) == 1)
    own = asyncio.ensure_future(network.host_calls.call(handle, 0, network.marshaller.encode([["the host's"], {}])))
    await answering.request_from_host()
    own.cancel()
    await until(own.done)
    assert len(open_calls) == 1
    with pytest.raises(AttributeError):
        await network.host_calls.call(handle, 99, network.marshaller.encode([[], {}]))
    assert len(open_calls) == 1
    answering.close()
    await until(lambda: not open_calls)


async def test_only_successful_calls_reach_the_journal(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    handle = await network.handle_of(answering, answering.again(5))
    noted = []

    def note(method: str, message: Encoded, number: int, answer: Buffer) -> None:
        noted.append((method, network.marshaller.decode(message), number))

    numbers = itertools.count(7)
    handle.follow(CallPolicy(lambda method, message, caller: next(numbers), note))
    for number, end in enumerate(("well", "badly", "well")):
        id = asking.call_object(target, 0, number)
        request = await answering.request_from_host()
        if end == "well":
            answering.respond(request.id)
            await asking.answer(id)
        else:
            answering.fail(request.id, ValueError("no"))
            with pytest.raises(ValueError, match="no"):
                await asking.answer(id)
    for end in ("badly", "well"):
        own = asyncio.ensure_future(network.host_calls.call(handle, 0, network.marshaller.encode([["the host's"], {}])))
        request = await answering.request_from_host()
        (answering.respond(request.id) if end == "well" else answering.fail(request.id, ValueError("no")))
        await asyncio.wait([own])
        assert (own.exception() is None) is (end == "well")
    assert noted == [("work", [[0], {}], 7), ("work", [[2], {}], 9), ("work", [["the host's"], {}], 11)]
