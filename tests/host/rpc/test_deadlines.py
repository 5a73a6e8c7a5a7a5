"""A call's clock runs while its callee works and stands still while the callee waits for the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from paddock.rpc.calls import IncomingCall, RoutedCall, holding
from paddock.rpc.open_calls import FOREVER, OpenCall
from paddock.rpc.peer import Encoded
from paddock_sdk.protocol import Flag, Kind
from support.rows import each_row
from support.scripted_end import ASYNC, STREAM

from .conftest import Network, mirror
from .scripted_worker import ScriptedWorker, until


@each_row(
    ("script", "deadline"),
    [
        pytest.param([], 10.0, id="no waiting"),
        pytest.param([("begins", 3), ("ends", 5)], 12.0, id="two seconds once"),
        pytest.param([("begins", 1), ("ends", 2), ("begins", 7), ("ends", 9)], 13.0, id="one after the other"),
        pytest.param([("begins", 1), ("begins", 2), ("ends", 3), ("ends", 6)], 15.0, id="overlapping counts once"),
        pytest.param([("begins", 4), ("ends", 4)], 10.0, id="no time at all"),
    ],
)
def test_the_time_a_callee_waits_for_the_host_is_added_to_its_deadline(
    script: list[tuple[str, float]], deadline: float
) -> None:
    call = OpenCall(deadline=10.0)
    for what, now in script:
        (call.nested_begins if what == "begins" else call.nested_ends)(float(now))
    assert call.deadline == deadline
    assert not call.is_overdue(deadline - 0.001)
    assert call.is_overdue(deadline)


def test_a_callee_that_waits_for_the_host_is_never_overdue() -> None:
    call = OpenCall(deadline=10.0)
    call.nested_begins(9.0)
    assert not call.is_overdue(1_000_000.0)
    call.nested_ends(1_000_000.0)
    assert call.deadline == 10.0 + 1_000_000.0 - 9.0
    unlimited = OpenCall(FOREVER)
    unlimited.nested_begins(1.0)
    unlimited.nested_ends(2.0)
    assert not unlimited.is_overdue(1e12)


def test_the_last_deadline_stands_only_while_a_call_is_held() -> None:
    call = OpenCall()
    call.limit_all_time(0.0, 10.0)
    call.nested_begins(1.0)
    assert call.has_deadline and not call.is_overdue(9.9) and call.is_overdue(10.0)
    call.hold(2.0)
    call.hold(3.0)
    call.go_on(4.0)
    assert not call.is_overdue(1e6)
    call.leave_out(5.0)
    call.go_on(6.0)
    call.leave_out(1.0)
    assert (call.is_over_all_time(14.9), call.is_over_all_time(15.0)) == (False, True)


async def test_only_a_call_of_the_host_or_an_orchestrator_has_a_clock_of_its_own(network: Network) -> None:
    peer, answering = await network.connect("answerer", call_max=1000.0)
    found = []
    for kind in ("orchestrator", "tool"):
        requester, asking = await network.connect(f"asker-{kind}", kind)
        target = await network.lend(answering, answering.own(5, {"work": ASYNC}), requester)
        asking.call_object(target)
        request = await answering.request_from_host()
        (call,) = peer.channel.calls.running()
        found.append(call.has_deadline)
        inside = IncomingCall(peer, 99, call, False)  # type: ignore[arg-type]
        with holding(inside):
            assert not call.is_overdue(1e12)
        answering.respond(request.id)
        await until(lambda: not peer.channel.calls.running())
    assert found == [True, False]


async def test_a_call_that_overstays_is_reported_until_it_ends(network: Network) -> None:
    _, asking, _, answering, target = await network.pair(runtime_max=0.0)
    id = asking.call_object(target)
    request = await answering.request_from_host()
    async with asyncio.timeout(60):
        while len(network.failure_policy.overdue) < 2:
            network.failure_policy.was_overdue.clear()
            await network.failure_policy.was_overdue.wait()
    assert {name for name, _ in network.failure_policy.overdue} == {"answerer"}
    answering.respond(request.id, "late, but there")
    assert await asking.answer(id) == "late, but there"


async def test_a_calls_clock_stands_still_from_a_nested_request_to_its_answer(network: Network) -> None:
    _, asking, peer, answering, target = await network.pair(runtime_max=1000.0)
    release = asyncio.Event()

    async def slow() -> Encoded:
        await release.wait()
        return Encoded(b"\xc0")

    network.service.methods[7] = lambda call, message: network.router.serve(call, slow())
    asking.call_object(target)
    request = await answering.request_from_host()
    (call,) = peer.channel.calls.running()
    far_future = call.deadline + 1.0
    assert call.is_overdue(far_future)
    waiting = answering.request(0, 7, None, parent=request.id)
    unrelated = answering.request(0, 7, None)
    await until(lambda: len(peer.incoming) >= 2)
    await until(lambda: not call.is_overdue(far_future))  # it waits for others
    answering.write(answering.connection.send_cancel(waiting))
    await until(lambda: len(peer.incoming) == 1)
    assert call.is_overdue(far_future + 1.0), "what it does of its own accord stops no clock"
    release.set()
    await answering.answer(unrelated)
    answering.respond(request.id)


@pytest.mark.parametrize("is_task", [True, False])
async def test_no_clock_stands_still_over_what_the_host_answers_by_itself(is_task: bool, network: Network) -> None:
    _, asking, peer, answering, target = await network.pair(runtime_max=1000.0)

    async def nothing_to_wait_for() -> Encoded:
        return Encoded(b"\xc0")

    def serve(call: IncomingCall, message: Encoded) -> None:
        if is_task:
            network.router.serve(call, nothing_to_wait_for())
        else:
            network.router.respond(call, Encoded(b"\xc0"))

    network.service.methods[7] = serve
    asking.call_object(target)
    request = await answering.request_from_host()
    (call,) = peer.channel.calls.running()
    deadline = call.deadline
    for id in [answering.request(0, 7, None, parent=request.id) for _ in range(50)]:
        await answering.answer(id)
        assert call.is_overdue(deadline)
    answering.respond(request.id)


@pytest.mark.parametrize("parent", [4711, 0])
async def test_a_cause_that_is_none_counts_as_none(parent: int, network: Network) -> None:
    _, asking, peer, answering, target = await network.pair(runtime_max=1000.0)
    asking.call_object(target)
    await answering.request_from_host()
    (call,) = peer.channel.calls.running()
    seen = []
    network.service.methods[7] = lambda incoming, message: (
        seen.append((incoming.cause, incoming.depth, call.is_overdue(call.deadline))),
        network.router.respond(incoming, Encoded(b"\xc0")),
    )
    await answering.ask(0, 7, None, parent=parent)
    assert seen == [(None, 0, True)]
    assert not answering.heard(Kind.CANCEL)


async def _read_in_a_call(network: Network) -> tuple[ScriptedWorker, ScriptedWorker, int, RoutedCall, RoutedCall]:
    """Return a reader and a source, the reader's number of the stream, and the calls of both; no credit is given."""
    reader, reading = await network.connect("reader", runtime_max=1000.0)
    giver, source = await network.connect("source", runtime_max=1000.0)
    requester, asking = await network.connect("asker")
    asking.call_object(await network.lend(reading, reading.own(5, {"work": ASYNC}), requester))
    parent = (await reading.request_from_host()).id
    target = await network.lend(source, source.own(6, {"items": STREAM}), reader)
    id = reading.call_object(target, flags=Flag.STREAM, parent=parent)
    await source.request_from_host()
    (readers,), (givers,) = reader.channel.calls.running(), giver.channel.calls.running()
    assert isinstance(readers, RoutedCall)
    assert isinstance(givers, RoutedCall)
    return reading, source, id, readers, givers


def _runs(call: OpenCall) -> bool:
    return call.is_overdue(call.deadline + 10_000.0)


async def test_of_a_stream_either_its_readers_clock_runs_or_its_givers(network: Network) -> None:
    reading, source, id, readers, givers = await _read_in_a_call(network)
    assert (_runs(readers), _runs(givers)) == (True, False), "nothing is wanted yet"
    for items in (1, 3):
        reading.write(reading.connection.send_credit(id, items))
        await source.take(Kind.CREDIT)
        for _ in range(items):
            assert (_runs(readers), _runs(givers)) == (False, True)
            source.write(source.connection.send_item(givers.id, b"\xc0"))
            await reading.take(Kind.ITEM)
        assert (_runs(readers), _runs(givers)) == (True, False)
    source.respond(givers.id)
    await reading.answer(id)
    assert _runs(readers)


async def test_the_last_deadline_stands_while_a_stream_has_no_credit(network: Network) -> None:
    giver, source = await network.connect("source", runtime_max=1000.0, call_max=1000.0)
    reader, reading = await network.connect("reader", "orchestrator")
    target = await network.lend(source, source.own(6, {"items": STREAM}), reader)
    id = reading.call_object(target, flags=Flag.STREAM)
    request = await source.request_from_host()
    (call,) = giver.channel.calls.running()
    assert not call.is_over_all_time(1e12)
    reading.write(reading.connection.send_credit(id, 1))
    await source.take(Kind.CREDIT)
    assert call.is_over_all_time(1e12)
    source.write(source.connection.send_item(call.id, b"\xc0"))
    await reading.take(Kind.ITEM)
    assert not call.is_over_all_time(1e12)
    source.respond(request.id)
    await reading.answer(id)


@pytest.mark.parametrize("is_idle", [False, True])
@pytest.mark.parametrize("end", ["answer", "failure", "cancellation"])
async def test_a_reader_whose_stream_is_over_has_its_own_time(end: str, is_idle: bool, network: Network) -> None:
    reading, source, id, readers, givers = await _read_in_a_call(network)
    if not is_idle:
        reading.write(reading.connection.send_credit(id, 1))
        await source.take(Kind.CREDIT)
    if end == "cancellation":
        reading.write(reading.connection.send_cancel(id))
        await source.take(Kind.CANCEL)
    else:
        (source.respond(givers.id) if end == "answer" else source.fail(givers.id, ValueError("no")))
        await reading.take(Kind.RESPONSE, Kind.FAILURE)
    assert _runs(readers)
    release = asyncio.Event()

    async def slow() -> Encoded:
        await release.wait()
        return Encoded(b"\xc0")

    network.service.methods[7] = lambda call, message: network.router.serve(call, slow())
    waiting = reading.request(0, 7, None, parent=readers.id)
    await until(lambda: not _runs(readers))
    release.set()
    await reading.answer(waiting)
    assert _runs(readers)


async def test_a_readers_clock_runs_while_a_host_generator_lacks_credit(network: Network) -> None:
    class Source:
        async def count(self) -> AsyncIterator[int]:
            for number in range(2):
                yield number

    reader, reading = await network.connect("reader", runtime_max=1000.0)
    requester, asking = await network.connect("asker")
    asking.call_object(await network.lend(reading, reading.own(5, {"work": ASYNC}), requester))
    parent = (await reading.request_from_host()).id
    (readers,) = reader.channel.calls.running()
    mirror(reader, network.marshaller.encode(Source(), share=True), may_call=True)
    entry = (await reading.take(Kind.MIRROR)).handles[0]
    id = reading.call_object(entry.id, flags=Flag.STREAM, parent=parent)
    for number in range(2):
        await until(lambda: _runs(readers))
        reading.write(reading.connection.send_credit(id, 1))
        assert reading.value(await reading.take(Kind.ITEM)) == number
    await reading.answer(id)
    assert _runs(readers)


async def test_a_self_call_that_is_given_up_stops_no_clock(
    network: Network,
) -> None:
    first, one = await network.connect("first", runtime_max=1000.0)
    second, two = await network.connect("second")
    requester, asking = await network.connect("asker")
    asking.call_object(await network.lend(one, one.own(5, {"work": ASYNC}), requester))
    outer = (await one.request_from_host()).id
    (call,) = first.channel.calls.running()
    through = await network.lend(two, two.own(6, {"work": ASYNC}), first)
    back = await network.lend(one, one.own(7, {"work": ASYNC}), second)
    for give_up in (False, True):
        asked = one.call_object(through, parent=outer)
        inner = (await two.request_from_host()).id
        returning = two.call_object(back, parent=inner)
        request = await one.request_from_host()
        assert _runs(call), "it waits for itself"
        if give_up:
            two.write(two.connection.send_cancel(returning))
            await one.take(Kind.CANCEL)
        else:
            one.respond(request.id)
            await two.answer(returning)
        assert not _runs(call), "it waits for another again"
        two.respond(inner)
        await one.answer(asked)
        assert _runs(call)
