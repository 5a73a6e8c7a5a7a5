"""A call's clock runs while its callee works and stands still while the callee waits for the host."""

from __future__ import annotations

import asyncio

import pytest

from paddock.rpc.channel import FOREVER, OpenCall
from paddock.rpc.handle import Encoded
from paddock_sdk.protocol import Kind

from .conftest import Network
from .scripted_worker import ASYNC, until


@pytest.mark.parametrize(
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


def test_a_call_without_a_limit_is_never_overdue() -> None:
    call = OpenCall(FOREVER)
    call.nested_begins(1.0)
    call.nested_ends(2.0)
    assert not call.is_overdue(1e12)


async def test_a_call_that_overstays_is_reported_until_it_ends(network: Network) -> None:
    _, answering = await network.connect("answerer", runtime_max=0.0)
    asker, asking = await network.connect("asker")
    target = await network.lend(answering, answering.own(5, {"work": ASYNC}), asker)
    id = asking.call_object(target)
    request = await answering.request_from_host()
    async with asyncio.timeout(5):
        while len(network.afterlife.overdue) < 2:
            network.afterlife.was_overdue.clear()
            await network.afterlife.was_overdue.wait()
    assert {name for name, _ in network.afterlife.overdue} == {"answerer"}
    answering.respond(request.id, "late, but there")
    assert await asking.answer(id) == "late, but there"


async def test_a_calls_clock_stands_still_from_a_nested_request_to_its_answer(network: Network) -> None:
    peer, answering = await network.connect("answerer", runtime_max=1000.0)
    asker, asking = await network.connect("asker")
    target = await network.lend(answering, answering.own(5, {"work": ASYNC}), asker)
    release = asyncio.Event()

    async def slow() -> Encoded:
        await release.wait()
        return Encoded(b"\xc0")

    network.service.methods[7] = lambda call, message: network.router.serve(call, slow())
    asking.call_object(target)
    request = await answering.request_from_host()
    (call,) = peer.channel.calls.values()
    far_future = call.deadline + 1.0
    assert call.is_overdue(far_future)
    waiting = answering.request(0, 7, None, parent=request.id)
    unrelated = answering.request(0, 7, None)
    await until(lambda: len(peer.incoming) >= 2)
    assert not call.is_overdue(far_future), "it waits for the host"
    answering.write(answering.connection.send_cancel(waiting))
    await until(lambda: len(peer.incoming) == 1)
    assert call.is_overdue(far_future + 1.0), "what it does of its own accord stops no clock"
    release.set()
    await answering.answer(unrelated)
    answering.respond(request.id)


@pytest.mark.parametrize("parent", [4711, 0])
async def test_a_cause_that_is_none_counts_as_none(parent: int, network: Network) -> None:
    peer, answering = await network.connect("answerer", runtime_max=1000.0)
    asker, asking = await network.connect("asker")
    target = await network.lend(answering, answering.own(5, {"work": ASYNC}), asker)
    asking.call_object(target)
    await answering.request_from_host()
    (call,) = peer.channel.calls.values()
    seen = []
    network.service.methods[7] = lambda incoming, message: (
        seen.append((incoming.cause, incoming.depth, call.is_overdue(call.deadline))),
        network.router.respond(incoming, Encoded(b"\xc0")),
    )
    await answering.ask(0, 7, None, parent=parent)
    assert seen == [(None, 0, True)]
    assert not answering.heard(Kind.CANCEL)
