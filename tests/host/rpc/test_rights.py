"""Who may call what: what a worker was only shown it cannot call, nor give anyone the right to."""

from __future__ import annotations

import pytest

from paddock.rpc.handle import Encoded, Handle
from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.protocol import Kind

from .conftest import Allowed, Network
from .scripted_worker import ASYNC


async def test_an_object_that_is_only_shown_cannot_be_called(network: Network) -> None:
    asker, asking = await network.connect("asker")
    _, answering = await network.connect("answerer")
    shown = await network.lend(answering, answering.own(5, {"work": ASYNC}), asker, may_call=False)
    with pytest.raises(RefusedError):
        await asking.answer(asking.call_object(shown))
    assert not answering.heard(Kind.REQUEST)


async def test_an_object_of_the_application_that_is_only_shown_cannot_be_called(network: Network) -> None:
    asker, asking = await network.connect("asker")
    asker.mirror(99, network.values.encode(lambda: "secret", share=True), may_call=False)
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
        peer.mirror(99, Encoded(b"\xc0", (handle,)), may_call=may_call)
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
        peer.mirror(99, Encoded(b"\xc0", (handle,)), may_call=False)
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


async def test_who_was_only_shown_an_object_gains_nothing_by_having_it_handed_back(network: Network) -> None:
    handle, (first, giving), (_, taking) = await _shown_to_both(network)
    target = await network.lend(taking, taking.own(8, {"echo": ASYNC}), first)
    known = first.granted(handle) or 0
    id = giving.call_object(target, 0, giving.foreign(known))
    request = await taking.request_from_host()
    taking.respond(request.id, taking.foreign(request.handles[0].id))
    assert (await giving.answer(id)).id == known
    with pytest.raises(RefusedError):
        await giving.answer(giving.call_object(known))


async def test_the_host_hands_what_is_mounted_on_without_the_right_to_call_it(network: Network) -> None:
    """What a worker gives the host and gets back, as in a contribution to a channel, is no way to a right."""
    handle, (first, giving), _ = await _shown_to_both(network)
    known = first.granted(handle) or 0

    def echo(call: object, message: Encoded) -> None:
        network.router.respond(call, network.values.encode(network.values.decode(message)))  # type: ignore[arg-type]

    network.service.methods[7] = echo
    assert (await giving.ask(0, 7, giving.foreign(known))).id == known
    with pytest.raises(RefusedError):
        await giving.answer(giving.call_object(known))


async def test_the_application_gives_the_right_to_call_what_it_passes(network: Network) -> None:
    handle, (first, taking), _ = await _shown_to_both(network)
    target = await network.handle_of(taking, taking.own(8, {"use": ASYNC}))
    stand_in = network.values.object_of(handle)
    network.router.spawn(network.router.call(target, 0, network.values.encode([[stand_in], {}])))  # type: ignore[arg-type]
    request = await taking.request_from_host()
    assert first.granted(handle) == request.handles[0].id
    taking.call_object(request.handles[0].id, parent=request.id)
    taking.respond(request.id)
    assert handle.owner.name == "answerer"
    await taking.round_trip()
