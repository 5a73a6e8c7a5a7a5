"""A worker that has the host do too much waits with its own requests; its answers are heard, and it lives on."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from paddock.rpc.calls import IncomingCall, current
from paddock.rpc.peer import Encoded
from paddock.token_bucket import TokenBucket
from paddock_sdk.protocol import Flag, Kind
from paddock_sdk.protocol.errors import UnfitValueError
from support.scripted_end import ASYNC, STREAM

from .conftest import Network
from .scripted_worker import until

_MUCH = [1] * 5000


def _soon() -> TokenBucket:
    """Return a bucket that a dozen requests owe a second to, which no busy machine takes to send them."""
    return TokenBucket(per_second=40_000, at_once=20_000)


def _never() -> TokenBucket:
    return TokenBucket(per_second=1e-6, at_once=1000)


@pytest.mark.costly
async def test_requests_beyond_the_budget_are_admitted_later_and_in_order(network: Network) -> None:
    peer, worker = await network.connect("worker", work=_soon())
    served: list[object] = []

    def serve(call: IncomingCall, message: Encoded) -> None:
        served.append(network.marshaller.decode(message)[0])
        network.router.respond(call, Encoded(b"\xc0"))

    network.service.methods[7] = serve
    ids = [worker.request(0, 7, [number, *_MUCH]) for number in range(12)]
    await until(lambda: peer.admission.is_behind)
    assert len(served) < 12
    for id in ids:
        await worker.answer(id)
    assert served == [*range(12)]
    await until(lambda: not peer.admission.is_behind)
    assert network.failure_policy.violations == []


async def test_a_refusal_counts_for_the_one_who_caused_it(network: Network) -> None:
    """It takes the host longer to write than the request took to send."""
    peer, worker = await network.connect("worker", work=TokenBucket(per_second=1e-6, at_once=60))

    def refuse(call: IncomingCall, message: Encoded) -> None:
        raise UnfitValueError("malformed request")

    network.service.methods[7] = refuse
    with pytest.raises(ValueError, match="malformed request"):
        await worker.ask(0, 7, None)
    assert peer.admission.is_behind


async def test_answers_are_heard_while_requests_are_put_off(network: Network) -> None:
    peer, worker = await network.connect("worker", work=_never())
    requester, asking = await network.connect("asker")
    target = await network.lend(worker, worker.own(5, {"work": ASYNC}), requester)
    first, second = (worker.request(0, 7, _MUCH) for _ in range(2))
    await worker.answer(first)
    for _ in range(3):
        id = asking.call_object(target)
        worker.respond((await worker.request_from_host()).id, _MUCH)
        assert await asking.answer(id) == _MUCH
    assert second in peer.incoming
    assert network.failure_policy.violations == []


async def test_the_time_a_request_is_put_off_is_the_workers_own(network: Network) -> None:
    peer, worker = await network.connect("worker", work=_never(), runtime_max=1000.0)
    _, others = await network.connect("other")
    requester, asking = await network.connect("asker")
    asking.call_object(await network.lend(worker, worker.own(5, {"work": ASYNC}), requester))
    request = await worker.request_from_host()
    (call,) = peer.channel.calls.running()
    await worker.ask(0, 7, _MUCH)
    worker.call_object(await network.lend(others, others.own(6, {"work": ASYNC}), peer), parent=request.id)
    await until(lambda: len(peer.incoming) == 1)
    assert call.is_overdue(call.deadline), "its clock runs"
    assert not others.heard(Kind.REQUEST)


async def test_a_request_that_was_put_off_and_given_up_is_kept_no_longer(network: Network) -> None:
    peer, worker = await network.connect("worker", work=_soon())
    await worker.ask(0, 7, [1] * 25_000)
    served: list[object] = []
    network.service.methods[8] = lambda call, message: served.append(message)
    id = worker.request(0, 8, "much" * 25_000)
    await until(lambda: peer.incoming)
    kept = weakref.ref(peer.incoming[id])
    worker.write(worker.connection.send_cancel(id))
    await until(lambda: not peer.incoming)
    gc.collect()
    assert kept() is None
    await until(lambda: not peer.admission.is_behind)
    assert served == []
    await worker.round_trip()


async def test_a_stream_that_was_put_off_starts_with_the_credit_it_was_given(network: Network) -> None:
    peer, worker = await network.connect("worker", work=_soon())
    _, source = await network.connect("source")
    target = await network.lend(source, source.own(5, {"items": STREAM}), peer)
    await worker.ask(0, 7, [1] * 25_000)
    id = worker.call_object(target, flags=Flag.STREAM)
    worker.write(worker.connection.send_credit(id, 3))
    request = await source.request_from_host()
    assert (await source.take(Kind.CREDIT)).target == 3
    source.respond(request.id)
    await worker.answer(id)


@pytest.mark.costly
async def test_a_worker_that_notifies_too_much_is_not_read_for_a_while(network: Network) -> None:
    peer, worker = await network.connect("worker", work=TokenBucket(per_second=50_000, at_once=20_000))
    for number in range(40):
        worker.notify(7, [number, *_MUCH])
    await until(lambda: peer.channel.is_held)
    assert len(network.service.notices) < 20
    await until(lambda: len(network.service.notices) == 40)
    said = [network.marshaller.decode(message)[0] for _, _, message in network.service.notices]
    assert said == [*range(40)]
    assert network.failure_policy.violations == []
    await worker.round_trip()


async def test_a_put_off_request_of_a_worker_that_is_gone_is_dropped(network: Network) -> None:
    peer, worker = await network.connect("worker", work=_soon())
    served: list[object] = []
    network.service.methods[8] = lambda call, message: served.append(message)
    await worker.ask(0, 7, [1] * 25_000)
    worker.request(0, 8, None)
    await until(lambda: peer.incoming)
    worker.close()
    await until(lambda: network.failure_policy.lost)
    await until(lambda: not peer.admission.is_behind)
    assert not served and not peer.incoming


@pytest.mark.parametrize("serves", [True, False])
async def test_large_answers_hold_up_who_asks_and_no_one_else(serves: bool, network: Network) -> None:
    peer, worker = await network.connect("worker")
    peer.answers = TokenBucket(per_second=50_000, at_once=1000)
    other, answering = await network.connect("other")
    handle = await network.handle_of(answering, answering.own(5, {"work": ASYNC}))
    called: list[float] = []

    async def work() -> Encoded:
        if serves:
            answer = await network.host_calls.call(handle, 0, network.marshaller.encode([[], {}]))
            called.append(asyncio.get_running_loop().time())
            return answer
        return Encoded(b"\xc0")

    network.service.methods[7] = lambda call, message: network.router.serve(call, work())
    id = worker.request(0, 7, None)
    if serves:
        answering.respond((await answering.request_from_host()).id, _MUCH)
        await until(lambda: called)
        assert not worker.heard(Kind.RESPONSE), "it waits for what was read in its service"
    await worker.answer(id)
    assert not other.admission.is_behind and not peer.admission.is_behind


async def test_answers_to_calls_of_the_hosts_own_cost_their_worker_nothing(network: Network) -> None:
    peer, worker = await network.connect("worker", work=_never())
    handle = await network.handle_of(worker, worker.own(5, {"work": ASYNC}))
    assert current.get() is None
    for _ in range(20):
        calling = asyncio.ensure_future(network.host_calls.call_value(handle, 0, network.marshaller.encode([[], {}])))
        worker.respond((await worker.request_from_host()).id, _MUCH)
        assert await calling == _MUCH
    assert not peer.admission.is_behind
