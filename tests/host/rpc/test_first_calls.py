"""The first call of a worker waits for a record, and later ones behind it; without a record none of them is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paddock.rpc.call_queue import MAX_HANDED
from paddock.rpc.first_calls import FirstCalls
from paddock.rpc.host_calls import HostCall
from paddock.rpc.peer import CallPolicy, Handle, Peer
from paddock_sdk.protocol import Flag, Kind, LocalProtocolError
from support.scripted_end import ASYNC, STREAM, SYNC

from .conftest import Network
from .scripted_worker import ScriptedWorker, until

_PLACE = "tools[0]"


class _Records:
    """Keeps records as a test says: each begun one waits in `open` until the test sets its result."""

    def __init__(self) -> None:
        self.open: list[asyncio.Future[None]] = []
        self.begun: list[tuple[str, str]] = []
        self.first_calls = FirstCalls(self._keep)
        self.stopped = 0

    async def _keep(self, module: str, called: str) -> None:
        self.begun.append((module, called))
        self.open.append(asyncio.get_running_loop().create_future())
        await self.open[-1]

    def stop(self) -> None:
        self.stopped += 1


async def _guarded(
    network: Network, records: _Records, name: str = "writer", flavour: Any = ASYNC, **options: Any
) -> tuple[Peer, ScriptedWorker, Handle]:
    peer, worker = await network.connect(name, **options)
    handle = await network.handle_of(worker, worker.own(5, {"write": flavour}))
    records.first_calls.guard(network.router, peer, _PLACE, network.router.method_name)
    return peer, worker, handle


def _call(network: Network, handle: Handle, value: object = None) -> asyncio.Task[Any]:
    message = network.marshaller.encode([[value], {}])
    return asyncio.ensure_future(network.host_calls.call_value(handle, 0, message))


async def _argument(worker: ScriptedWorker) -> Any:
    request = await worker.request_from_host()
    worker.respond(request.id)
    return worker.value(request)[0][0]


async def test_calls_wait_in_order_for_one_record_then_pass_unexamined(network: Network) -> None:
    records = _Records()
    peer, worker, handle = await _guarded(network, records)
    calls = [_call(network, handle, number) for number in range(2)]
    await until(lambda: records.open)
    calls.append(_call(network, handle, 2))
    await until(lambda: peer.waiting == 3)
    await worker.round_trip()
    assert records.begun == [("writer", "write")] and not worker.heard(Kind.REQUEST)
    records.open[0].set_result(None)
    await until(lambda: peer.gate is None)
    calls.append(_call(network, handle, 3))
    assert [await _argument(worker) for _ in calls] == [0, 1, 2, 3]
    await asyncio.gather(*calls)
    assert len(records.begun) == 1


Ask = Callable[[Network, Handle], Awaitable[Any]]


async def _now(network: Network, handle: Handle) -> Any:
    return await network.host_calls.call_now(handle, 0, network.marshaller.encode([[], {}]))


async def _streamed(network: Network, handle: Handle) -> Any:
    return [item async for item in network.host_calls.stream(handle, 0, network.marshaller.encode([[], {}]))]


async def _begun(network: Network, handle: Handle) -> Any:
    message = network.marshaller.encode([[], {}])
    return await network.host_calls.call(handle, 0, message, network.host_calls.begin(handle, 0, message))


async def _by_a_worker(network: Network, handle: Handle, flags: Flag = Flag.NONE) -> Any:
    peer, worker = await network.connect("caller")
    target = await network.lend(network.workers[handle.owner], network.workers[handle.owner].again(5), peer)
    return await worker.answer(worker.call_object(target, flags=flags))


async def _by_a_blocked_worker(network: Network, handle: Handle) -> Any:
    return await _by_a_worker(network, handle, Flag.BLOCKED)


_WAYS: dict[str, tuple[Ask, Any]] = {
    "call now": (_now, ASYNC),
    "stream": (_streamed, STREAM),
    "begin": (_begun, ASYNC),
    "a worker": (_by_a_worker, ASYNC),
    "a blocked worker": (_by_a_blocked_worker, SYNC),
}


@pytest.mark.parametrize("way", _WAYS)
async def test_every_way_to_call_waits_and_fails_without_a_record(way: str, network: Network) -> None:
    records, (ask, flavour) = _Records(), _WAYS[way]
    _, worker, handle = await _guarded(network, records, flavour=flavour)
    asked = asyncio.ensure_future(ask(network, handle))
    await until(lambda: records.open)
    with pytest.raises(OSError, match="disk full"), records.first_calls.needed(records.stop):
        records.open[0].set_exception(OSError("disk full"))
        with pytest.raises(Exception, match="`writer` was not called, as no record of that was kept: disk full"):
            await asked
        raise RuntimeError("the turn's own")
    await worker.round_trip()
    assert records.stopped == 1 and not worker.heard(Kind.REQUEST)


async def test_after_a_failed_record_none_is_begun_and_nothing_new_called(network: Network) -> None:
    records = _Records()
    _, _, handle = await _guarded(network, records)
    first = _call(network, handle)
    await until(lambda: records.open)
    records.open[0].set_exception(OSError("disk full"))
    peer, other = await network.connect("other")
    another = await network.handle_of(other, other.own(5, {"write": ASYNC}))
    records.first_calls.guard(network.router, peer, "tools[1]", network.router.method_name)
    for call in (first, _call(network, handle), _call(network, another)):
        with pytest.raises(Exception, match="no record of that was kept: disk full"):
            await call
    assert len(records.begun) == 1 and not other.heard(Kind.REQUEST)


async def test_a_call_cancelled_while_it_waits_is_recorded_and_not_made(network: Network) -> None:
    records = _Records()
    peer, worker, handle = await _guarded(network, records)
    first, second = _call(network, handle, "first"), _call(network, handle, "second")
    await until(lambda: peer.waiting == 2 and records.open)
    first.cancel()
    await until(lambda: peer.waiting == 1)
    records.open[0].set_result(None)
    assert await _argument(worker) == "second"
    await second
    assert first.cancelled() and records.first_calls.needed(records.stop)


async def test_a_worker_that_dies_meanwhile_needs_no_second_record(network: Network) -> None:
    records = _Records()
    _, worker, handle = await _guarded(network, records)
    lives: list[tuple[Peer, ScriptedWorker]] = []

    async def revive(lost: Handle, method: str) -> None:
        again, next_worker, renewed = await _guarded(network, records, "writer")
        lost.rebind(renewed)
        lives.append((again, next_worker))

    network.failure_policy.on_revive = revive  # type: ignore[assignment]
    call = _call(network, handle, "once")
    await until(lambda: records.open)
    worker.close()
    await until(lambda: lives and lives[0][0].waiting)
    records.open[0].set_result(None)
    assert await _argument(lives[0][1]) == "once"
    await call
    assert len(records.begun) == 1 and lives[0][0].gate is None


async def test_a_record_has_no_character_that_hides_or_breaks_it(network: Network) -> None:
    records = _Records()
    peer, _, handle = await _guarded(network, records)
    records.first_calls.guard(network.router, peer, _PLACE, lambda call: "hook \udc80\n\u202e")
    call = _call(network, handle)
    await until(lambda: records.open)
    assert records.begun == [("writer", r"hook \udc80\n\u202e")]
    call.cancel()


@pytest.mark.parametrize("kind", ["provider", "tool"])
async def test_only_completions_of_a_provider_need_no_record(kind: str, network: Network) -> None:
    records = _Records()
    peer, worker, handle = await _guarded(network, records, kind=kind)
    handle.mount_at(("providers", "model"))
    tool = await network.handle_of(worker, worker.own(6, {"write": ASYNC}))
    needs_none = MAX_HANDED + 1 if kind == "provider" else 0
    calls = [_call(network, handle, number) for number in range(needs_none)]
    first = [await worker.request_from_host() for _ in calls[:MAX_HANDED]]
    held = [tool, handle] if kind == "provider" else [handle, tool]
    calls += [_call(network, one, number) for number, one in enumerate(held, needs_none)]
    await until(lambda: peer.waiting == len(calls) - len(first) and records.open)
    for request in first:  # there is room now, and still no record
        worker.respond(request.id)
    await worker.round_trip()
    assert not worker.heard(Kind.REQUEST)
    records.open[0].set_result(None)
    assert [await _argument(worker) for _ in calls[len(first) :]] == [*range(len(first), len(calls))]
    await asyncio.gather(*calls)


async def test_a_call_that_its_owner_waits_for_is_handed_over_as_one(network: Network) -> None:
    records = _Records()
    peer, worker, handle = await _guarded(network, records, flavour=SYNC)
    other_peer, other = await network.connect("other")
    to_other = await network.lend(other, other.own(6, {"work": SYNC}), peer)
    back = await network.lend(worker, worker.again(5), other_peer)
    asked = worker.call_object(to_other, flags=Flag.BLOCKED)
    request = await other.request_from_host()
    inner = other.call_object(back, flags=Flag.BLOCKED, parent=request.id)
    await until(lambda: records.open)
    records.open[0].set_result(None)
    called_back = await worker.request_from_host()
    assert called_back.parent == asked
    worker.respond(called_back.id)
    await other.answer(inner)
    other.respond(request.id)
    await worker.answer(asked)
    assert handle.owner is peer


async def test_a_call_that_was_not_made_gives_back_what_was_set_aside(network: Network) -> None:
    records = _Records()
    released: list[int] = []
    _, _, handle = await _guarded(network, records)
    handle.follow(CallPolicy(admit=lambda *call: 7, release=released.append))
    call = _call(network, handle)
    await until(lambda: records.open)
    records.open[0].set_exception(OSError("disk full"))
    with pytest.raises(Exception, match="disk full"):
        await call
    assert released == [7]


async def test_a_call_of_a_worker_that_is_gone_does_not_wait(network: Network) -> None:
    records = _Records()
    peer, _, handle = await _guarded(network, records)
    peer.channel.close()
    await until(lambda: network.failure_policy.lost)
    with pytest.raises(LocalProtocolError):
        network.router.start(HostCall(network.router, None, handle, 0, network.marshaller.encode([[], {}])))
