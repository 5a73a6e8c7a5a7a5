"""Who may call what, and for how long: what a worker was only shown it cannot call, nor give anyone the right to."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from paddock.rpc.peer import Encoded, Handle, Peer
from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.protocol import Kind
from support.scripted_end import ASYNC

from .conftest import Allowed, Network, mirror


async def test_an_object_of_the_application_that_is_only_shown_cannot_be_called(network: Network) -> None:
    requester, asking = await network.connect("asker")
    mirror(requester, network.marshaller.encode(lambda: "secret", share=True), may_call=False)
    entry = (await asking.take(Kind.MIRROR)).handles[0]
    with pytest.raises(RefusedError):
        await asking.answer(asking.call_object(entry.id))


async def test_an_argument_may_be_called_also_by_who_was_only_shown_it_before(network: Network) -> None:
    lender, lending = await network.connect("lender", "orchestrator")
    borrower, borrowing = await network.connect("borrower")
    _, answering = await network.connect("answerer")
    target = await network.lend(borrowing, borrowing.own(8, {"use": ASYNC}), lender)
    handle = await network.handle_of(answering, answering.own(5, {"work": ASYNC}))
    for peer, may_call in ((lender, True), (borrower, False)):
        mirror(peer, Encoded(b"\xc0", (handle,)), may_call=may_call)
    lenders = (await lending.take(Kind.MIRROR)).handles[0]
    borrowers = (await borrowing.take(Kind.MIRROR)).handles[0]
    lending.call_object(target, 0, lending.foreign(lenders.id))
    request = await borrowing.request_from_host()
    assert request.handles[0].id == borrowers.id
    borrowing.call_object(borrowers.id, parent=request.id)
    assert (await answering.request_from_host()).target == 5


async def _shown_to_both(network: Network) -> tuple[Handle, tuple, tuple]:
    """Return a mounted object that two workers see and may not call."""
    _, answering = await network.connect("answerer", "provider")
    handle = await network.handle_of(answering, answering.own(5, {"work": ASYNC}))
    handle.mounted = ("providers", "mock")
    first = await network.connect("first", authority=Allowed(set()))
    second = await network.connect("second", authority=Allowed(set()))
    for peer, worker in (first, second):
        mirror(peer, Encoded(b"\xc0", (handle,)), may_call=False)
        await worker.take(Kind.MIRROR)
    return handle, first, second


async def test_who_was_only_shown_an_object_cannot_lend_it_to_another(network: Network) -> None:
    handle, (first, giving), (second, taking) = await _shown_to_both(network)
    target = await network.lend(taking, taking.own(8, {"use": ASYNC}), first)
    giving.call_object(target, 0, giving.foreign(first.granted(handle) or 0))
    request = await taking.request_from_host()
    assert request.handles[0].id == second.granted(handle)
    with pytest.raises(RefusedError):
        await taking.answer(taking.call_object(request.handles[0].id))


async def test_handing_back_a_shown_object_grants_nothing(network: Network) -> None:
    handle, (first, giving), (_, taking) = await _shown_to_both(network)
    target = await network.lend(taking, taking.own(8, {"echo": ASYNC}), first)
    known = first.granted(handle) or 0
    id = giving.call_object(target, 0, giving.foreign(known))
    request = await taking.request_from_host()
    taking.respond(request.id, taking.foreign(request.handles[0].id))
    assert (await giving.answer(id)).id == known
    with pytest.raises(RefusedError):
        await giving.answer(giving.call_object(known))


# -- for how long ------------------------------------------------------------------------------


async def _lent(network: Network) -> tuple[Handle, tuple, tuple, int]:
    """Return a provider that one worker may call by right and has passed to another, and the id of that open call."""
    _, answering = await network.connect("answerer", "provider")
    handle = await network.handle_of(answering, answering.own(5, {"get_info": ASYNC, "complete": ASYNC}))
    handle.mounted = ("providers", "mock")
    lender, lending = await network.connect("lender", "orchestrator")
    borrower, borrowing = await network.connect("borrower", authority=Allowed(set()))
    for peer, worker, may_call in ((lender, lending, True), (borrower, borrowing, False)):
        mirror(peer, Encoded(b"\xc0", (handle,)), may_call=may_call)
        await worker.take(Kind.MIRROR)
    target = await network.lend(borrowing, borrowing.own(8, {"use": ASYNC}), lender)
    id = lending.call_object(target, 0, lending.foreign(lender.granted(handle) or 0))
    return handle, (lender, lending), (borrower, borrowing), id


async def _may_call(network: Network, handle: Handle, peer: Peer, **options: Any) -> bool:
    """Return whether a worker may call an object; its owner is made to answer."""
    worker, owner = network.workers[peer], network.workers[handle.owner]
    id = worker.call_object(peer.granted(handle) or 0, **options)
    await worker.round_trip()
    await owner.round_trip()
    for request in owner.heard(Kind.REQUEST):
        owner.frames.remove(request)
        owner.respond(request.id)
    try:
        await worker.answer(id)
    except RefusedError:
        return False
    return True


async def test_a_lent_object_may_be_called_until_its_call_is_answered(network: Network) -> None:
    handle, (_, lending), (borrower, borrowing), id = await _lent(network)
    request = await borrowing.request_from_host()
    assert await _may_call(network, handle, borrower, parent=request.id)
    assert await _may_call(network, handle, borrower)
    borrowing.respond(request.id)
    await lending.answer(id)
    assert not await _may_call(network, handle, borrower)


async def test_a_loan_ends_with_a_call_that_fails_or_is_cancelled(network: Network) -> None:
    handle, (lender, lending), (borrower, borrowing), id = await _lent(network)
    request = await borrowing.request_from_host()
    borrowing.fail(request.id, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await lending.answer(id)
    assert not await _may_call(network, handle, borrower)
    target = next(number for number in (1, 2) if lender.grant(number).handle is not handle)
    id = lending.call_object(target, 0, lending.foreign(lender.granted(handle) or 0))
    await borrowing.request_from_host()
    assert await _may_call(network, handle, borrower)
    lending.write(lending.connection.send_cancel(id))
    await borrowing.take(Kind.CANCEL)
    assert not await _may_call(network, handle, borrower)


async def test_each_of_two_calls_lends_for_its_own_length(network: Network) -> None:
    handle, (lender, lending), (borrower, borrowing), first = await _lent(network)
    target = next(number for number in (1, 2) if lender.grant(number).handle is not handle)
    second = lending.call_object(target, 0, lending.foreign(lender.granted(handle) or 0))
    requests = [await borrowing.request_from_host() for _ in range(2)]
    borrowing.respond(requests[1].id)
    await lending.answer(second)
    assert await _may_call(network, handle, borrower)
    borrowing.respond(requests[0].id)
    await lending.answer(first)
    assert not await _may_call(network, handle, borrower)


async def test_what_is_only_lent_can_be_lent_on_for_no_longer(network: Network) -> None:
    handle, (_, lending), (borrower, borrowing), id = await _lent(network)
    third, taking = await network.connect("third", authority=Allowed(set()))
    request = await borrowing.request_from_host()
    target = await network.lend(taking, taking.own(9, {"use": ASYNC}), borrower)
    # Of its own accord, so that nothing but the loan ties one call to the other.
    onward = borrowing.call_object(target, 0, borrowing.foreign(borrower.granted(handle) or 0))
    await taking.request_from_host()
    assert await _may_call(network, handle, third)
    borrowing.respond(request.id)
    await lending.answer(id)
    assert not await _may_call(network, handle, third)
    assert onward in borrower.incoming


async def test_lending_to_and_fro_keeps_nothing_alive(network: Network) -> None:
    handle, (_, lending), (borrower, borrowing), id = await _lent(network)
    third, taking = await network.connect("third", authority=Allowed(set()))
    request = await borrowing.request_from_host()
    there = await network.lend(taking, taking.own(9, {"use": ASYNC}), borrower)
    back = await network.lend(borrowing, borrowing.own(8, {"use": ASYNC}), third)
    borrowing.call_object(there, 0, borrowing.foreign(borrower.granted(handle) or 0))
    await taking.request_from_host()
    taking.call_object(back, 0, taking.foreign(third.granted(handle) or 0))
    await borrowing.request_from_host()
    assert await _may_call(network, handle, borrower)
    borrowing.respond(request.id)
    await lending.answer(id)
    assert not await _may_call(network, handle, borrower)
    assert not await _may_call(network, handle, third)


async def test_a_workers_own_object_may_be_called_as_long_as_it_is_held(network: Network) -> None:
    giver, giving = await network.connect("giver")
    _, keeping = await network.connect("keeper", authority=Allowed(set()))
    target = await network.lend(keeping, keeping.own(8, {"keep": ASYNC}), giver)
    id = giving.call_object(target, 0, giving.function(6))
    request = await keeping.request_from_host()
    keeping.respond(request.id)
    await giving.answer(id)
    keeping.call_object(request.handles[0].id)
    assert (await giving.request_from_host()).target == 6


async def test_an_answer_carries_no_right_to_what_is_mounted_elsewhere(network: Network) -> None:
    handle, (lender, lending), (borrower, borrowing), id = await _lent(network)
    request = await borrowing.request_from_host()
    borrowing.respond(request.id)
    await lending.answer(id)
    target = await network.lend(lending, lending.own(3, {"find": ASYNC}), borrower)
    asking = borrowing.call_object(target)
    lending.respond((await lending.request_from_host()).id, lending.foreign(lender.granted(handle) or 0))
    await borrowing.answer(asking)
    assert not await _may_call(network, handle, borrower)


async def test_an_answer_carries_the_right_to_an_unmounted_object(network: Network) -> None:
    finder, finding = await network.connect("finder")
    requester, asking = await network.connect("asker", authority=Allowed(set()))
    _, answering = await network.connect("answerer")
    handle = await network.handle_of(answering, answering.own(5, {"work": ASYNC}))
    mirror(finder, Encoded(b"\xc0", (handle,)), may_call=True)
    known = (await finding.take(Kind.MIRROR)).handles[0].id
    target = await network.lend(finding, finding.own(3, {"find": ASYNC}), requester)
    id = asking.call_object(target)
    finding.respond((await finding.request_from_host()).id, finding.foreign(known))
    await asking.answer(id)
    assert await _may_call(network, handle, requester)


async def test_what_the_application_passes_of_what_is_mounted_is_lent(network: Network) -> None:
    handle, (first, taking), _ = await _shown_to_both(network)
    target = await network.handle_of(taking, taking.own(8, {"use": ASYNC}))
    passed = network.marshaller.encode([[network.marshaller.object_of(handle)], {}])
    network.router.tasks.spawn(network.host_calls.call(target, 0, passed))  # type: ignore[arg-type]
    request = await taking.request_from_host()
    assert await _may_call(network, handle, first)
    taking.respond(request.id)
    assert not await _may_call(network, handle, first)


async def test_of_what_is_lent_only_the_members_that_the_kind_may_use_are_called(network: Network) -> None:
    handle, (_, _), (borrower, borrowing), _ = await _lent(network)
    borrower.authority = Allowed(set(), {"get_info"})
    await borrowing.request_from_host()
    assert await _may_call(network, handle, borrower)
    id = borrowing.call_object(borrower.granted(handle) or 0, 1)
    with pytest.raises(RefusedError):
        await borrowing.answer(id)


async def test_a_loan_keeps_nothing_of_its_call_alive(network: Network) -> None:
    handle, (_, lending), (borrower, borrowing), id = await _lent(network)
    request = await borrowing.request_from_host()
    call = weakref.ref(borrower.channel.calls.get(request.id))
    borrowing.respond(request.id)
    await lending.answer(id)
    gc.collect()
    assert call() is None
    assert borrower.granted(handle) is not None
