"""Every call ends exactly once, however it ends and whoever gives it up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.rpc.peer import Encoded
from paddock_sdk.contract.boundary_errors import ModuleGoneError
from paddock_sdk.protocol import Kind, LocalProtocolError
from support.scripted_end import ASYNC

from .conftest import Network
from .scripted_worker import ScriptedWorker, until


async def _pair(network: Network) -> tuple[ScriptedWorker, ScriptedWorker, int]:
    requester, asking = await network.connect("asker")
    _, answering = await network.connect("answerer")
    return asking, answering, await network.lend(answering, answering.own(5, {"work": ASYNC}), requester)


def _ends(worker: ScriptedWorker) -> list[Any]:
    return worker.heard(Kind.RESPONSE, Kind.FAILURE)


async def test_a_caller_that_gives_up_ends_at_once_and_the_callee_learns_it(network: Network) -> None:
    asking, answering, target = await _pair(network)
    id = asking.call_object(target)
    request = await answering.request_from_host()
    raw = asking.connection.send_cancel(id)
    asking.write(raw)
    cancel = await answering.take(Kind.CANCEL)
    assert cancel.id == request.id
    await asking.round_trip()
    assert asking.connection.outgoing == 0, "the end of a cancelled call has come, and was discarded"
    answering.respond(request.id, "too late")
    await answering.round_trip()
    await asking.round_trip()
    assert not _ends(asking)


async def test_the_end_of_a_given_up_call_may_cross_its_cancellation(network: Network) -> None:
    asking, answering, target = await _pair(network)
    id = asking.call_object(target)
    request = await answering.request_from_host()
    answering.respond(request.id, "in time")
    assert await asking.answer(id) == "in time"
    assert asking.connection.send_cancel(id) is None
    await asking.round_trip()
    assert not answering.heard(Kind.CANCEL)


async def test_a_request_given_up_before_the_host_looked_at_it_still_ends(network: Network) -> None:
    """Request and cancellation arrive in one piece, so the host's own code for it has not run a step yet."""
    _, asking = await network.connect("asker")

    async def work() -> Encoded:
        await asyncio.sleep(3600)
        raise AssertionError("unreachable")

    network.service.methods[7] = lambda call, message: network.router.serve(call, work())
    id, request = asking.request_frame(0, 7, None)
    cancel = asking.connection.send_cancel(id)
    assert cancel is not None
    asking.write(request, cancel)
    await until(lambda: not asking.connection.outgoing)


async def test_cancelling_a_call_cancels_what_the_host_asks_others_on_its_behalf(network: Network) -> None:
    _, asking = await network.connect("asker")
    _, answering = await network.connect("answerer")
    handle = await network.handle_of(answering, answering.own(5, {"work": ASYNC}))

    async def ask() -> Encoded:
        return await network.host_calls.call(handle, 0, network.marshaller.encode([[], {}]))

    network.service.methods[7] = lambda call, message: network.router.serve(call, ask())
    id = asking.request(0, 7, None)
    request = await answering.request_from_host()
    asking.write(asking.connection.send_cancel(id))
    assert (await answering.take(Kind.CANCEL)).id == request.id
    await asking.round_trip()
    assert asking.connection.outgoing == 0


async def test_what_a_dead_caller_asked_for_is_cancelled(network: Network) -> None:
    asking, answering, target = await _pair(network)
    asking.call_object(target)
    request = await answering.request_from_host()
    asking.close()
    assert (await answering.take(Kind.CANCEL)).id == request.id


async def test_an_answer_of_the_host_that_cannot_be_sent_is_a_failure(network: Network) -> None:
    _, asking = await network.connect("asker", send_limit=2000)
    network.service.methods[7] = lambda call, message: network.router.respond(
        call, network.marshaller.encode("x" * 3000)
    )
    with pytest.raises(Exception, match="over the limit"):
        await asking.ask(0, 7, None)


async def test_a_call_of_the_host_ends_when_the_worker_is_gone(network: Network) -> None:
    peer, answering = await network.connect("answerer")
    handle = await network.handle_of(answering, answering.own(5, {"work": ASYNC}))
    calls = [
        asyncio.ensure_future(network.host_calls.call_now(handle, 0, Encoded(b"\x92\x90\x80"))),
        asyncio.ensure_future(network.host_calls.ask(peer, 1, Encoded(b"\xc0"))),
    ]
    for _ in calls:
        await answering.request_from_host()
    answering.close()
    for ended in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(ended, ModuleGoneError) and "`answerer` ended before it answered" in str(ended)
    with pytest.raises(ModuleGoneError, match="`answerer` is gone"):
        await network.host_calls.call_now(handle, 0, Encoded(b"\x92\x90\x80"))
    with pytest.raises(LocalProtocolError):
        await network.host_calls.ask(peer, 1, Encoded(b"\xc0"))
