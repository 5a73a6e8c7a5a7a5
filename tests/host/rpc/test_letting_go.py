"""How long an object is known on a connection: from when it is first handed out until its last holder lets go."""

from __future__ import annotations

import gc

import pytest

from paddock.rpc import object_limits
from paddock.rpc.peer import Encoded
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol import Flag, HandleEntry, HandleSide, Kind
from support.scripted_end import ASYNC, STREAM, Lent

from .conftest import Network, mirror
from .scripted_worker import ScriptedWorker


async def test_the_owner_learns_when_its_object_is_released(network: Network) -> None:
    _, owner = await network.connect("owner")
    held = await network.handle_of(owner, owner.own(5))
    for _ in range(2):
        await owner.ask(0, 1, owner.again(5))
    assert not owner.heard(Kind.RELEASE)
    del held
    release = await owner.take(Kind.RELEASE)
    assert (release.id, release.target) == (5, 3)


async def test_an_object_lives_as_long_as_another_worker_holds_it(network: Network) -> None:
    _, owner = await network.connect("owner")
    holder, holding = await network.connect("holder")
    target = await network.lend(owner, owner.own(5, {"work": ASYNC}), holder)
    gc.collect()
    await owner.round_trip()
    assert not owner.heard(Kind.RELEASE)
    holding.write(holding.connection.send_release(target, 1))
    assert (await owner.take(Kind.RELEASE)).id == 5
    confirmed = await holding.take(Kind.RELEASE)
    assert (confirmed.id, confirmed.target) == (target, 0)


async def test_a_released_object_is_described_anew_when_handed_out(network: Network) -> None:
    _, owner = await network.connect("owner")
    holder, holding = await network.connect("holder")
    held = await network.handle_of(owner, owner.own(5, colour="red"))
    mirror(holder, Encoded(b"\xc0", (held,)), may_call=True)
    first = (await holding.take(Kind.MIRROR)).handles[0]
    holding.write(holding.connection.send_release(first.id, 1))
    await holding.take(Kind.RELEASE)
    mirror(holder, Encoded(b"\xc0", (held,)), may_call=True)
    second = (await holding.take(Kind.MIRROR)).handles[0]
    assert second.id != first.id
    assert holding.description(second).attributes == {"colour": "red"}


async def test_a_release_that_crosses_its_object_leaves_it_known(network: Network) -> None:
    _, owner = await network.connect("owner")
    holder, holding = await network.connect("holder")
    held = await network.handle_of(owner, owner.own(5, {"work": ASYNC}))
    for _ in range(2):
        mirror(holder, Encoded(b"\xc0", (held,)), may_call=True)
    first = (await holding.take(Kind.MIRROR)).handles[0]
    holding.write(holding.connection.send_release(first.id, 1))  # before it looks at the second
    second = (await holding.take(Kind.MIRROR)).handles[0]
    assert second == HandleEntry(HandleSide.SENDER, first.id)
    holding.call_object(second.id)
    assert (await owner.request_from_host()).target == 5
    assert not holding.heard(Kind.RELEASE), "unconfirmed: it is still held"


async def test_an_object_on_its_way_to_the_host_while_the_host_lets_go_arrives(network: Network) -> None:
    """The owner has not heard of the release yet, so it does not describe its object again."""
    _, owner = await network.connect("owner")
    held = await network.handle_of(owner, owner.own(5, colour="red"))
    del held
    release = await owner.take(Kind.RELEASE)
    assert (release.id, release.target) == (5, 1)
    held = await network.handle_of(owner, owner.again(5))
    assert held.description(network.marshaller.codec).attributes == {"colour": "red"}
    assert network.failure_policy.violations == []
    del held
    release = await owner.take(Kind.RELEASE)
    assert (release.id, release.target) == (5, 1), "what was released before is not released again"


async def test_an_object_whose_release_was_confirmed_has_to_be_described_again(network: Network) -> None:
    _, owner = await network.connect("owner")
    held = await network.handle_of(owner, owner.own(5))
    del held
    await owner.take(Kind.RELEASE)
    owner.write(owner.connection.send_release(5, 0))
    owner.request(0, 1, owner.again(5))
    await owner.cut_off()
    assert network.failure_policy.violations == [("owner", "object 5 came without a description")]


async def test_objects_in_a_cancelled_calls_answer_count_as_handed_over(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    id = asking.call_object(target)
    request = await answering.request_from_host()
    asking.write(asking.connection.send_cancel(id))
    await answering.take(Kind.CANCEL)
    answering.respond(request.id, [answering.own(6, colour="red"), answering.again(6)])
    release = await answering.take(Kind.RELEASE)
    assert (release.id, release.target) == (6, 2)
    held = await network.handle_of(answering, answering.again(6))
    assert held.description(network.marshaller.codec).attributes == {"colour": "red"}


async def test_an_object_comes_home_to_the_host_as_the_very_same(network: Network) -> None:
    holder, holding = await network.connect("holder")

    class Clock:
        def now(self) -> int:
            return 12

    clock = Clock()
    message = network.marshaller.encode(["the clock", clock], share=True)
    mirror(holder, message, may_call=True)
    entry = (await holding.take(Kind.MIRROR)).handles[0]
    assert await holding.answer(holding.call_object(entry.id)) == 12
    received = []
    network.service.methods[7] = lambda call, message: (
        received.append(network.marshaller.decode(message)),
        network.router.respond(call, network.marshaller.encode(None)),
    )
    await holding.ask(0, 7, [holding.foreign(entry.id)])
    assert received[0][0] is clock


async def test_the_end_of_a_connection_lets_go_of_what_the_worker_held(network: Network) -> None:
    _, owner = await network.connect("owner")
    holder, holding = await network.connect("holder")
    await network.lend(owner, owner.own(5), holder)
    holding.close()
    release = await owner.take(Kind.RELEASE)
    assert (release.id, release.target) == (5, 1)
    assert not holder.is_open


async def test_a_worker_that_hands_out_objects_without_end_is_ended(network: Network) -> None:
    hoarder, hoarding = await network.connect("hoarder")
    held = []
    network.service.methods[7] = lambda call, message: (
        held.append(message),
        network.router.respond(call, network.marshaller.encode(None)),
    )
    description = hoarding.describe({})
    for first in range(1, 10_000, 1000):
        entries = [HandleEntry(HandleSide.SENDER, id, description) for id in range(first, first + 1000)]
        id, frame = hoarding.connection.send_request(0, 7, b"\xc0", entries)
        hoarding.write(frame)
        await hoarding.answer(id)
    hoarding.request(0, 7, hoarding.own(10_001))
    await hoarding.cut_off()
    assert network.failure_policy.violations == [("hoarder", "more than 10000 objects handed out")]
    assert not hoarder.is_open


async def test_kept_descriptions_are_bounded_together(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_limits, "_MAX_DESCRIBED", 3000)
    _, owner = await network.connect("owner")
    for number in range(10):  # one after the other, each let go of and that confirmed
        held = await network.handle_of(owner, owner.own(number, text="x" * 1000))
        del held
        release = await owner.take(Kind.RELEASE)
        owner.write(owner.connection.send_release(release.id, 0))
    kept = await network.handle_of(owner, owner.own(20, text="x" * 1000))
    owner.write(owner.connection.send_release(20, 0))  # which confirms nothing: it is still held
    owner.request(0, 1, owner.own(21, text="x" * 1000))
    await owner.cut_off()
    assert "descriptions take more than 3000 bytes" in network.failure_policy.violations[0][1]
    del kept


@pytest.mark.parametrize("asks_the_host", [False, True])
async def test_who_keeps_too_much_of_anothers_is_refused_more(
    asks_the_host: bool, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maker gives what it is asked for: it is neither ended, nor kept from others, for what one of them keeps."""
    monkeypatch.setattr(object_limits, "_MAX_ASKED_OBJECTS", 3)
    _, maker = await network.connect("maker")
    source = await network.handle_of(maker, maker.own(1, {"make": ASYNC}))

    async def make() -> Encoded:
        return await network.host_calls.call(source, 0, network.marshaller.encode([[], {}]))

    network.service.methods[7] = lambda call, message: network.router.serve(call, make())

    async def connect(name: str) -> tuple[ScriptedWorker, int]:
        peer, worker = await network.connect(name)
        return worker, await network.lend(maker, maker.again(1), peer)

    async def ask(asking: ScriptedWorker, number: int, answer: Lent) -> HandleEntry:
        asked = asking.request(0, 7, None) if asks_the_host else asking.call_object(number)
        maker.respond((await maker.request_from_host()).id, answer)
        entry = await asking.answer(asked)
        assert isinstance(entry, HandleEntry)
        return entry

    keeper, other = await connect("keeper"), await connect("other")
    kept = [await ask(*keeper, maker.own(number)) for number in (10, 11, 12)]
    with pytest.raises(OverLimitError, match="`keeper` keeps too much of `maker`: more than 3 objects"):
        await ask(*keeper, maker.own(13))
    with pytest.raises(OverLimitError):
        await ask(*keeper, maker.again(13))  # as its owner has not heard yet that it was not taken
    for _ in range(2):
        release = await maker.take(Kind.RELEASE)
        assert (release.id, release.target) == (13, 1)
        maker.write(maker.connection.send_release(13, 0))
    await ask(*other, maker.own(14))
    keeper[0].write(keeper[0].connection.send_release(kept[0].id, 1))
    while (release := await maker.take(Kind.RELEASE)).id != 10:
        pass
    maker.write(maker.connection.send_release(10, 0))
    await ask(*keeper, maker.own(15))
    assert network.failure_policy.violations == []


async def test_a_stream_of_objects_that_are_kept_ends_for_its_reader(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_limits, "_MAX_ASKED_DESCRIBED", 3000)
    _, source = await network.connect("source")
    reader, reading = await network.connect("reader")
    number = await network.lend(source, source.own(5, {"items": STREAM}), reader)
    asked = reading.call_object(number, flags=Flag.STREAM)
    request = await source.request_from_host()
    reading.write(reading.connection.send_credit(asked, 10))
    await source.take(Kind.CREDIT)
    for id in range(10, 13):
        source.write(source.connection.send_item(request.id, *source.body(source.own(id, text="x" * 1000))))
    assert (await reading.take(Kind.ITEM)).handles
    with pytest.raises(OverLimitError, match="more than 3000 bytes"):
        await reading.answer(asked)
    assert (await source.take(Kind.CANCEL)).id == request.id
    assert network.failure_policy.violations == []
