"""What one worker says to another: the body as it is, the handle table rewritten, under numbers of the receiver's."""

from __future__ import annotations

import gc
import weakref

import pytest

from paddock_sdk.protocol import Flag, HandleEntry, HandleSide, Kind
from paddock_sdk.protocol.description import Flavour
from support.scripted_end import ASYNC, STREAM, SYNC, Lent

from .conftest import Network

# Bytes that are no value at all: whoever only passes them on does not notice.
_OPAQUE = b"\xc1\xff never decoded \x00"


async def test_bodies_of_calls_and_answers_pass_unread(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    id, frame = asking.connection.send_request(target, 0, _OPAQUE)
    asking.write(frame)
    request = await answering.request_from_host()
    assert (request.target, request.method, request.body) == (5, 0, _OPAQUE)
    answering.write(answering.connection.send_response(request.id, _OPAQUE * 2))
    response = await asking.take(Kind.RESPONSE)
    assert (response.id, response.body) == (id, _OPAQUE * 2)
    id = asking.call_object(target)
    request = await answering.request_from_host()
    answering.write(answering.connection.send_failure(request.id, _OPAQUE))
    failure = await asking.take(Kind.FAILURE)
    assert (failure.id, failure.body) == (id, _OPAQUE)


@pytest.mark.parametrize(("flavour", "flags"), [(ASYNC, Flag.NONE), (SYNC, Flag.IN_PLACE), (STREAM, Flag.STREAM)])
async def test_a_forwarded_calls_flags_come_from_its_target(flavour: Flavour, flags: Flag, network: Network) -> None:
    _, asking, _, answering, target = await network.pair({"work": flavour})
    asking.call_object(target, flags=Flag.STREAM | Flag.IN_PLACE)
    assert (await answering.request_from_host()).flags == flags


async def test_an_argument_goes_home_as_itself_and_to_others_as_a_number(network: Network) -> None:
    requester, asking = await network.connect("asker")
    _, answering = await network.connect("answerer")
    _, third = await network.connect("third")
    target = await network.lend(answering, answering.own(5, {"work": ASYNC}), requester)
    answerers_own = await network.lend(answering, answering.own(6), requester)
    thirds = await network.lend(third, third.own(5, {"other": SYNC}, colour="red"), requester)
    arguments = [asking.foreign(answerers_own), asking.foreign(thirds), asking.own(900, {"mine": ASYNC})]
    asking.call_object(target, 0, *arguments)
    request = await answering.request_from_host()
    home, of_third, of_requester = request.handles
    assert home == HandleEntry(HandleSide.RECEIVER, 6)
    assert (of_third.side, of_requester.side) == (HandleSide.SENDER, HandleSide.SENDER)
    assert of_third.id != of_requester.id
    assert answering.description(of_third).attributes == {"colour": "red"}
    assert [member.name for member in answering.description(of_requester).members] == ["mine"]
    assert answering.value(request)[0] == [home, of_third, of_requester]


async def test_a_returned_object_goes_home_or_is_handed_on(network: Network) -> None:
    _, asking, _, answering, target = await network.pair({"keep": ASYNC})
    id = asking.call_object(target, 0, asking.own(31, {"mine": ASYNC}))
    request = await answering.request_from_host()
    kept = answering.foreign(request.handles[0].id)
    answering.respond(request.id, [kept, answering.own(7), answering.again(5)])
    home, new, known = await asking.answer(id)
    assert home == HandleEntry(HandleSide.RECEIVER, 31)
    assert new.side == HandleSide.SENDER and new.description
    assert (known.side, known.id, known.description) == (HandleSide.SENDER, target, b"")


async def test_the_same_object_keeps_its_number_and_is_described_once(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    seen = []
    for lent in (asking.own(31), asking.again(31), asking.again(31)):
        id = asking.call_object(target, 0, lent)
        request = await answering.request_from_host()
        seen.append(request.handles[0])
        answering.respond(request.id)
        await asking.answer(id)
    assert seen[0].description and not seen[1].description and not seen[2].description
    assert len({(entry.side, entry.id) for entry in seen}) == 1


async def test_a_number_of_one_connection_means_nothing_on_another(network: Network) -> None:
    requester, asking = await network.connect("asker")
    _, answering = await network.connect("answerer")
    _, stranger = await network.connect("stranger")
    target = await network.lend(answering, answering.own(5, {"work": ASYNC}), requester)
    stranger.call_object(target)
    await stranger.cut_off()
    assert network.failure_policy.violations == [
        ("stranger", f"a reference to object {target}, which this module was never handed")
    ]
    id = asking.call_object(target)
    request = await answering.request_from_host()
    answering.respond(request.id, "fine")
    assert await asking.answer(id) == "fine"


@pytest.mark.parametrize(
    "lent",
    [
        pytest.param(Lent(HandleEntry(HandleSide.RECEIVER, 4711)), id="never handed out"),
        pytest.param(Lent(HandleEntry(HandleSide.RECEIVER, 0)), id="the host itself"),
        pytest.param(Lent(HandleEntry(HandleSide.SENDER, 4711)), id="never described"),
    ],
)
async def test_an_object_out_of_nowhere_ends_the_worker_that_names_it(lent: Lent, network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    asking.call_object(target, 0, lent)
    await asking.cut_off()
    assert [name for name, _ in network.failure_policy.violations] == ["asker"]
    assert not answering.heard(Kind.REQUEST)


async def test_a_description_that_is_none_ends_its_owner_and_not_the_caller(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    asking.call_object(target)
    no_description = Lent(HandleEntry(HandleSide.SENDER, 9, b"\x90"))
    answering.respond((await answering.request_from_host()).id, no_description)
    (given,) = (await asking.take(Kind.RESPONSE)).handles
    with pytest.raises(AttributeError, match="no member 0"):
        await asking.answer(asking.call_object(given.id))
    await answering.cut_off()
    assert network.failure_policy.violations == [("answerer", "malformed object description")]


async def test_an_answer_with_an_unknown_object_ends_the_callee(network: Network) -> None:
    _, asking, _, answering, target = await network.pair()
    id = asking.call_object(target)
    request = await answering.request_from_host()
    answering.respond(request.id, answering.foreign(4711))
    with pytest.raises(ConnectionError, match="nothing stands in"):
        await asking.answer(id)
    assert [name for name, _ in network.failure_policy.violations] == ["answerer"]
    assert network.failure_policy.asked == [("answer_for", "work", 1)]


_LIMIT = 2000  # bytes a worker takes in one frame; small, so that a description makes the difference


async def test_a_call_that_outgrows_a_frame_fails_without_a_trace(network: Network) -> None:
    """The receiver has to be told what the objects in a message are, which the sender did long ago."""
    _, asking, _, answering, target = await network.pair(send_limit=_LIMIT)
    held = await network.handle_of(asking, asking.own(31, text="x" * 1000))
    with pytest.raises(Exception, match="over the limit"):
        await asking.answer(asking.call_object(target, 0, asking.again(31), bytes(1500)))
    assert not answering.heard(Kind.REQUEST)
    asking.call_object(target, 0, asking.again(31))
    (entry,) = (await answering.request_from_host()).handles
    assert answering.description(entry).attributes == {"text": "x" * 1000}
    assert held.object_id == 31


async def test_an_answer_that_outgrows_a_frame_fails_alone(network: Network) -> None:
    requester, asking = await network.connect("asker", send_limit=_LIMIT)
    _, answering = await network.connect("answerer")
    target = await network.lend(answering, answering.own(5, {"work": ASYNC}), requester)
    held = await network.handle_of(answering, answering.own(31, text="x" * 1000))
    id = asking.call_object(target)
    request = await answering.request_from_host()
    answering.respond(request.id, [answering.again(31), bytes(1500)])
    with pytest.raises(Exception, match="over the limit"):
        await asking.answer(id)
    id = asking.call_object(target)
    request = await answering.request_from_host()
    answering.respond(request.id, answering.again(31))
    assert asking.description(await asking.answer(id)).attributes == {"text": "x" * 1000}
    assert held.object_id == 31


@pytest.mark.parametrize("ends", ["answered", "given up"])
async def test_nothing_of_a_call_that_has_ended_waits_for_a_collection(network: Network, ends: str) -> None:
    _, owner = await network.connect("owner")
    caller_peer, caller = await network.connect("caller")
    target = await network.lend(owner, owner.own(5, {"work": ASYNC}), caller_peer)
    gc.disable()
    try:
        id = caller.call_object(target, 0, "much" * 25_000)
        request = await owner.request_from_host()
        kept = weakref.ref(caller_peer.incoming[id])
        if ends == "answered":
            owner.respond(request.id)
            await caller.answer(id)
        else:
            caller.write(caller.connection.send_cancel(id))
            await owner.take(Kind.CANCEL)
        await caller.round_trip()
        assert kept() is None
    finally:
        gc.enable()
