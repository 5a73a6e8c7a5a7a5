"""A worker is handed a bounded number of calls; the rest wait, each caller's in order and the callers in turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.rpc import call_queue
from paddock.rpc.call_queue import MAX_HANDED
from paddock.rpc.peer import Encoded, Handle, Peer
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol import Frame, Kind
from support.scripted_end import ASYNC

from .conftest import Network, mirror
from .scripted_worker import ScriptedWorker, until


async def _callee(network: Network, **options: Any) -> tuple[Peer, ScriptedWorker, Handle]:
    peer, worker = await network.connect("callee", **options)
    return peer, worker, await network.handle_of(worker, worker.own(5, {"work": ASYNC}))


async def _caller(network: Network, name: str, callee: Handle) -> tuple[Peer, ScriptedWorker, int]:
    peer, worker = await network.connect(name)
    mirror(peer, Encoded(b"\xc0", (callee,)), may_call=True)
    return peer, worker, (await worker.take(Kind.MIRROR)).handles[0].id


async def _handed(worker: ScriptedWorker, times: int) -> list[Frame]:
    return [await worker.request_from_host() for _ in range(times)]


def _argument(worker: ScriptedWorker, request: Frame) -> Any:
    return worker.value(request)[0][0]


async def test_a_worker_gets_a_bounded_number_of_calls_and_the_next_as_one_ends(network: Network) -> None:
    peer, callee, handle = await _callee(network)
    _, asking, target = await _caller(network, "asker", handle)
    ids = [asking.call_object(target, 0, number) for number in range(MAX_HANDED + 3)]
    handed = await _handed(callee, MAX_HANDED)
    await until(lambda: peer.waiting == 3)
    assert not callee.heard(Kind.REQUEST)
    for number in range(3):
        callee.respond(handed[number].id)
        further = await callee.request_from_host()
        assert _argument(callee, further) == MAX_HANDED + number
        handed.append(further)
    for request in handed[3:]:
        callee.respond(request.id)
    for id in ids:
        await asking.answer(id)
    assert not peer.waiting and not peer.channel.wants_room


async def test_callers_have_their_turns_however_many_calls_each_has(network: Network) -> None:
    peer, callee, handle = await _callee(network)
    _, loud, to_loud = await _caller(network, "loud", handle)
    _, quiet, to_quiet = await _caller(network, "quiet", handle)
    for number in range(MAX_HANDED + 20):
        loud.call_object(to_loud, 0, ["loud", number])
    handed = await _handed(callee, MAX_HANDED)
    await until(lambda: peer.waiting == 20)
    for number in range(3):
        quiet.call_object(to_quiet, 0, ["quiet", number])
    await until(lambda: peer.waiting == 23)
    order = []
    for request in handed[:10]:
        callee.respond(request.id)
        order.append(tuple(_argument(callee, await callee.request_from_host())))
    assert order[:4] == [("loud", MAX_HANDED), ("quiet", 0), ("loud", MAX_HANDED + 1), ("quiet", 1)]
    assert [item for item in order if item[0] == "quiet"] == [("quiet", number) for number in range(3)]


async def test_the_deadline_of_a_call_begins_when_it_is_handed_over(network: Network) -> None:
    peer, callee, handle = await _callee(network, runtime_max=1000.0)
    _, asking, target = await _caller(network, "asker", handle)
    for number in range(MAX_HANDED + 1):
        asking.call_object(target, 0, number)
    handed = await _handed(callee, MAX_HANDED)
    await until(lambda: peer.waiting)
    before = asyncio.get_running_loop().time()
    callee.respond(handed[0].id)
    last = await callee.request_from_host()
    assert peer.channel.calls.get(last.id).deadline >= before + 1000.0


async def test_a_full_queue_fails_the_call_of_its_own_caller(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "_MAX_WAITING", 2)
    peer, callee, handle = await _callee(network)
    _, loud, to_loud = await _caller(network, "loud", handle)
    _, quiet, to_quiet = await _caller(network, "quiet", handle)
    ids = [loud.call_object(to_loud) for _ in range(MAX_HANDED + 3)]
    with pytest.raises(OverLimitError, match="2 calls of module `loud` wait for that module already"):
        await loud.answer(ids[-1])
    id = quiet.call_object(to_quiet)
    await until(lambda: peer.waiting == 3)
    for _ in [*ids[:-1], id]:
        callee.respond((await callee.request_from_host()).id)
    await quiet.answer(id)
    for id in ids[:-1]:
        await loud.answer(id)


async def test_calls_nested_in_what_the_callee_serves_are_handed_over_at_once(network: Network) -> None:
    peer, callee, handle = await _callee(network)
    middle, between = await network.connect("middle")
    _, asking, target = await _caller(network, "asker", handle)
    to_middle = await network.lend(between, between.own(6, {"work": ASYNC}), peer)
    back = await network.lend(callee, callee.again(5), middle)
    ids = [asking.call_object(target) for _ in range(MAX_HANDED + 4)]
    outer = await _handed(callee, MAX_HANDED)
    asked = [callee.call_object(to_middle, parent=request.id) for request in outer]
    for request in await _handed(between, MAX_HANDED):
        between.call_object(back, parent=request.id)
    inner = await _handed(callee, MAX_HANDED)
    assert peer.waiting == 4
    for request in inner:
        callee.respond(request.id)
    for frame in [await between.take(Kind.RESPONSE) for _ in inner]:
        assert frame.kind == Kind.RESPONSE
    assert len(asked) == len(ids) - 4


async def test_a_waiting_call_that_is_given_up_is_never_made(network: Network) -> None:
    peer, callee, handle = await _callee(network)
    _, asking, target = await _caller(network, "asker", handle)
    ids = [asking.call_object(target, 0, number) for number in range(MAX_HANDED + 2)]
    handed = await _handed(callee, MAX_HANDED)
    await until(lambda: peer.waiting == 2)
    asking.write(asking.connection.send_cancel(ids[-2]))
    await until(lambda: peer.waiting == 1)
    callee.respond(handed[0].id)
    assert _argument(callee, await callee.request_from_host()) == MAX_HANDED + 1
    assert not callee.heard(Kind.CANCEL)


async def test_a_waiting_call_of_the_hosts_own_that_is_given_up_is_never_made(network: Network) -> None:
    peer, callee, handle = await _callee(network)
    nothing = network.marshaller.encode([[], {}])
    calls = [asyncio.ensure_future(network.host_calls.call(handle, 0, nothing)) for _ in range(MAX_HANDED + 1)]
    handed = await _handed(callee, MAX_HANDED)
    await until(lambda: peer.waiting == 1)
    calls[-1].cancel()
    await until(lambda: peer.waiting == 0)
    for request in handed:
        callee.respond(request.id)
    await asyncio.gather(*calls[:-1])
    await callee.round_trip()
    assert not callee.heard(Kind.REQUEST, Kind.CANCEL)


async def test_what_waits_for_a_worker_that_dies_is_asked_of_its_next_life_once(network: Network) -> None:
    peer, callee, handle = await _callee(network)
    _, asking, target = await _caller(network, "asker", handle)
    ids = [asking.call_object(target, 0, number) for number in range(MAX_HANDED + 2)]
    nothing = network.marshaller.encode([[], {}])
    await _handed(callee, MAX_HANDED)
    made = [asyncio.ensure_future(network.host_calls.call(handle, 0, nothing)) for _ in range(MAX_HANDED)]
    await _handed(callee, MAX_HANDED)
    calling = asyncio.ensure_future(network.host_calls.call(handle, 0, nothing))
    now = asyncio.ensure_future(network.host_calls.call_now(handle, 0, nothing))
    await until(lambda: peer.waiting == 4)
    _, next_callee = await network.connect("callee")
    next_handle = await network.handle_of(next_callee, next_callee.own(5, {"work": ASYNC}))

    async def revive(lost: Handle, method: str) -> Encoded | None:
        if not lost.owner.is_open:
            lost.rebind(next_handle)
        return None

    network.failure_policy.on_revive = revive
    callee.close()
    for request in await _handed(next_callee, 3):
        next_callee.respond(request.id)
    for id in ids[-2:]:
        await asking.answer(id)
    await calling
    with pytest.raises(RuntimeError, match="ended before it answered"):
        await now
    assert {type(error) for error in await asyncio.gather(*made, return_exceptions=True)} == {ConnectionError}
    for id in ids[:-2]:
        with pytest.raises(ConnectionError):
            await asking.answer(id)


async def test_a_cancelled_call_counts_until_it_ends_within_the_time_of_a_call(network: Network) -> None:
    peer, callee, handle = await _callee(network, runtime_max=0.2)
    _, asking, target = await _caller(network, "asker", handle)
    ids = [asking.call_object(target, 0, number) for number in range(MAX_HANDED)]
    handed = await _handed(callee, MAX_HANDED)
    for id in ids:
        asking.write(asking.connection.send_cancel(id))
    for _ in ids:
        await callee.take(Kind.CANCEL)
    asking.call_object(target, 0, "later")
    await until(lambda: peer.waiting == 1)
    await network.failure_policy.was_overdue.wait()
    assert {name for name, _ in network.failure_policy.overdue} == {"callee"}
    callee.fail(handed[0].id, asyncio.CancelledError())
    assert _argument(callee, await callee.request_from_host()) == "later"
