"""Calls that come back to where they started: what would wait for itself is refused, all else goes through."""

from __future__ import annotations

import pytest

from paddock.rpc.call_queue import MAX_HANDED
from paddock.rpc.peer import Encoded, Handle
from paddock_sdk.contract.boundary_errors import DeadlockError
from paddock_sdk.protocol import Flag, Frame, Kind
from paddock_sdk.protocol.description import Flavour
from support.scripted_end import ASYNC, SYNC

from .conftest import Network
from .scripted_worker import ScriptedWorker, until


class _Two:
    """Two workers, each holding an object of the other's with an async member 0 and a sync member 1."""

    first: ScriptedWorker
    second: ScriptedWorker
    to_second: int
    to_first: int

    @classmethod
    async def of(cls, network: Network) -> _Two:
        two = cls()
        members: dict[str, Flavour] = {"wait": ASYNC, "tell": SYNC}
        one, two.first = await network.connect("first")
        other, two.second = await network.connect("second")
        two.to_second = await network.lend(two.second, two.second.own(5, members), one)
        two.to_first = await network.lend(two.first, two.first.own(5, members), other)
        return two


def _ask_when_called(network: Network, handler: Handle) -> None:
    """Let a request of host method 7 be answered with what `handler` says, as an event's handlers are asked."""

    async def ask() -> Encoded:
        return await network.host_calls.call(handler, 0, Encoded(b"\x92\x90\x80"))

    network.service.methods[7] = lambda call, message: network.router.serve(call, ask())


async def test_an_async_call_into_its_blocked_caller_is_refused(network: Network) -> None:
    two = await _Two.of(network)
    blocked = two.first.call_object(two.to_second, 1, flags=Flag.BLOCKED)
    request = await two.second.request_from_host()
    with pytest.raises(DeadlockError, match=r"`wait` of module `first`.*: first → second → first; make what") as caught:
        await two.second.answer(two.second.call_object(two.to_first, 0, parent=request.id))
    assert caught.value.chain == ("first", "second", "first")
    assert not two.first.heard(Kind.REQUEST)
    two.second.respond(request.id, "without asking back")
    assert await two.first.answer(blocked) == "without asking back"


async def test_a_synchronous_call_back_is_served_in_place(network: Network) -> None:
    two = await _Two.of(network)
    blocked = two.first.call_object(two.to_second, 1, flags=Flag.BLOCKED)
    request = await two.second.request_from_host()
    back = two.second.call_object(two.to_first, 1, parent=request.id)
    in_place = await two.first.request_from_host()
    assert in_place.flags == Flag.IN_PLACE
    two.first.respond(in_place.id, "told")
    assert await two.second.answer(back) == "told"
    two.second.respond(request.id, "done")
    assert await two.first.answer(blocked) == "done"


async def test_a_call_of_another_chain_into_a_blocked_worker_waits(network: Network) -> None:
    two = await _Two.of(network)
    blocked = two.first.call_object(two.to_second, 1, flags=Flag.BLOCKED)
    request = await two.second.request_from_host()
    unrelated = two.second.call_object(two.to_first, 0)
    queued = await two.first.request_from_host()
    two.second.respond(request.id)
    await two.first.answer(blocked)
    two.first.respond(queued.id, "in its turn")
    assert await two.second.answer(unrelated) == "in its turn"


async def test_a_circle_through_a_third_and_through_the_host_is_seen(network: Network) -> None:
    two = await _Two.of(network)
    third, thirds = await network.connect("third")
    into_first = await network.lend(two.first, two.first.own(9, {"wait": ASYNC}), third)
    handler = await network.handle_of(thirds, thirds.own(5, {"__call__": ASYNC}))
    _ask_when_called(network, handler)
    two.first.call_object(two.to_second, 1, flags=Flag.BLOCKED)
    request = await two.second.request_from_host()
    emitted = two.second.request(0, 7, None, parent=request.id)
    handled = await thirds.request_from_host()
    with pytest.raises(DeadlockError, match="first → second → third → first"):
        await thirds.answer(thirds.call_object(into_first, parent=handled.id))
    thirds.respond(handled.id, "coped")
    assert await two.second.answer(emitted) == "coped"


async def test_a_host_method_that_would_wait_for_its_caller_is_refused(network: Network) -> None:
    _, only = await network.connect("only")
    handler = await network.handle_of(only, only.own(5, {"__call__": ASYNC}))
    _ask_when_called(network, handler)
    with pytest.raises(DeadlockError, match="only → only"):
        await only.ask(0, 7, None, flags=Flag.BLOCKED)


@pytest.mark.parametrize("through", ["each other", "the host"])
async def test_calls_that_nest_without_end_are_stopped(through: str, network: Network) -> None:
    two = await _Two.of(network)
    handler = await network.handle_of(two.first, two.first.own(6, {"__call__": ASYNC}))
    _ask_when_called(network, handler)
    depth, parent, asking = 0, 0, two.first
    while True:
        if through == "the host":
            id = two.first.request(0, 7, None, parent=parent)
        else:
            id = asking.call_object(two.to_second if asking is two.first else two.to_first, 0, parent=parent)
        answering = two.first if through == "the host" or asking is two.second else two.second
        frame = await answering.take(Kind.REQUEST) if depth < 64 else await _either(asking, answering)
        if frame.kind == Kind.FAILURE:
            break
        depth, parent, asking = depth + 1, frame.id, answering
        assert depth < 100, "nothing stops it"
    assert frame.id == id
    assert isinstance(asking.value(frame), RecursionError)
    assert depth == 65


async def _either(asking: ScriptedWorker, answering: ScriptedWorker) -> Frame:
    await asking.round_trip()
    await answering.round_trip()
    for worker, kind in ((answering, Kind.REQUEST), (asking, Kind.FAILURE)):
        if worker.heard(kind):
            return await worker.take(kind)
    raise AssertionError("neither forwarded nor refused")


async def test_blocked_calls_that_are_given_up_are_bounded(network: Network) -> None:
    owner_peer, owner = await network.connect("owner", runtime_max=600.0)
    caller_peer, caller = await network.connect("caller")
    target = await network.lend(owner, owner.own(5, {"work": ASYNC}), caller_peer)
    given_up = 0
    while not owner_peer.waiting:
        id = caller.call_object(target, flags=Flag.BLOCKED)
        await until(lambda: caller_peer.incoming)
        if not owner_peer.waiting:
            caller.write(caller.connection.send_cancel(id))
            await until(lambda: not caller_peer.incoming)
            given_up += 1
            assert given_up <= 2 * MAX_HANDED
    assert given_up == owner_peer.channel.connection.outgoing
    for _ in range(given_up):
        owner.respond((await owner.request_from_host()).id)
    owner.respond((await owner.request_from_host()).id, "at last")
    assert await caller.answer(id) == "at last"
