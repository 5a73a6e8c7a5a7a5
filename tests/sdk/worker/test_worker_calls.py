"""Calls a worker makes: awaited, in place, from other threads and loops, given up, and ended by the host's end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from paddock_sdk.contract.boundary_errors import ModuleGoneError
from paddock_sdk.protocol import Flag, Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection

from .conftest import Rig, until
from .scripted_host import ScriptedHost

_METHOD = 77  # any number will do: the scripted host knows no methods


def _echo(count: int) -> Any:
    def script(host: ScriptedHost) -> list[Any]:
        seen = []
        for _ in range(count):
            request = host.request_from_worker()
            seen.append(host.value(request))
            host.respond(request.id, seen[-1])
        return seen

    return script


# -- awaited -----------------------------------------------------------------------------------


async def test_an_awaited_call_returns_the_answer_and_raises_the_failure(rig: Rig) -> None:
    async with rig.playing(_echo(1)):
        assert await rig.driver.call(0, _METHOD, {"number": 1}) == {"number": 1}

    def refuse(host: ScriptedHost) -> None:
        host.fail(host.request_from_worker().id, LookupError("no such thing"))

    async with rig.playing(refuse):
        with pytest.raises(LookupError, match="no such thing"):
            await rig.driver.call(0, _METHOD, None)


async def test_answers_may_come_in_any_order(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        requests = [host.request_from_worker() for _ in range(5)]
        for request in reversed(requests):
            host.respond(request.id, host.value(request))

    async with rig.playing(script):
        answers = await asyncio.gather(*(rig.driver.call(0, _METHOD, number) for number in range(5)))
    assert answers == [0, 1, 2, 3, 4]


async def test_a_call_that_is_given_up_is_cancelled_at_the_host(rig: Rig) -> None:
    begun = threading.Event()

    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        begun.set()
        assert host.take(Kind.CANCEL).id == request.id
        host.respond(request.id, "too late")
        assert host.is_silent()

    async with rig.playing(script):
        calling = asyncio.ensure_future(rig.driver.call(0, _METHOD, None))
        await until(begun.is_set)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling


async def test_an_answer_that_meets_its_cancellation_is_harmless(rig: Rig) -> None:
    """The caller is cancelled and has not run since, as the answer comes in, in the middle of a call in place."""

    def script(host: ScriptedHost) -> None:
        given_up, in_place = host.request_from_worker(), host.request_from_worker()
        host.respond(given_up.id, "just too late")
        host.mirror(MirrorSection.HEARD, ["tool:pre", True])
        host.respond(in_place.id, "in place")

    async with rig.playing(script):
        calling = asyncio.ensure_future(rig.driver.call(0, _METHOD, None))
        await asyncio.sleep(0)
        calling.cancel()
        assert rig.driver.call_sync(0, _METHOD, None) == "in place"
        assert rig.coordinator.hooks.has_handlers("tool:pre")
        with pytest.raises(asyncio.CancelledError):
            await calling


# -- in place ----------------------------------------------------------------------------------


class _Tool:
    """Notes what runs, and when."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.log: list[Any] = []

    def look(self, what: str) -> Any:
        self.log.append(("look", what))
        return self.rig.coordinator.session_state.get(what)

    def ask_back(self, what: str) -> Any:
        self.log.append(("ask back", what))
        answer = self.rig.driver.call_sync(0, _METHOD, what)
        self.log.append(("answered", answer))
        return answer

    async def work(self, what: str) -> str:
        self.log.append(("work", what))
        return what


async def _tool(rig: Rig) -> tuple[_Tool, int, dict[str, int]]:
    tool = _Tool(rig)
    entry = await rig.export(tool)
    members = [member.name for member in rig.host.description(entry).members]
    return tool, entry.id, {name: number for number, name in enumerate(members)}


async def test_a_blocked_call_runs_plain_functions_and_queues_coroutines(rig: Rig) -> None:
    tool, id, numbers = await _tool(rig)

    def script(host: ScriptedHost) -> list[Any]:
        blocked = host.request_from_worker()
        assert blocked.flags == Flag.IN_PLACE | Flag.BLOCKED
        queued = host.request(id, numbers["work"], "queued")
        host.in_place(id, numbers["look"], "nothing")
        host.respond(blocked.id, "answered")
        assert host.answer(queued) == "queued"
        return []

    async with rig.playing(script):
        tool.log.append(rig.driver.call_sync(0, _METHOD, None))
        tool.log.append("back")
    assert tool.log == [("look", "nothing"), "answered", "back", ("work", "queued")]


async def test_state_changes_apply_in_order_while_a_call_waits(rig: Rig) -> None:
    _, id, numbers = await _tool(rig)

    def script(host: ScriptedHost) -> list[Any]:
        blocked = host.request_from_worker()
        seen = []
        for number in range(3):
            host.mirror(MirrorSection.STATE, [[["number"], [number]]])
            seen.append(host.in_place(id, numbers["look"], "number"))
        host.mirror(MirrorSection.STATE, [[["number"], ["last"]]])
        host.respond(blocked.id)
        return seen

    async with rig.playing(script) as played:
        rig.driver.call_sync(0, _METHOD, None)
        assert rig.coordinator.session_state == {"number": "last"}
    assert played.result() == [0, 1, 2]


async def test_nested_calls_in_place_keep_frame_order(rig: Rig) -> None:
    tool, id, numbers = await _tool(rig)

    def script(host: ScriptedHost) -> None:
        outer = host.request_from_worker()
        back = host.request(id, numbers["ask_back"], "inner", flags=Flag.IN_PLACE)
        inner = host.request_from_worker()
        assert inner.parent == back
        host.respond(outer.id, "outer answer")  # before the inner one, which has to end first all the same
        host.mirror(MirrorSection.STATE, [[["seen"], [True]]])
        host.in_place(id, numbers["look"], "seen")
        host.respond(inner.id, "inner answer")
        assert host.answer(back) == "inner answer"

    async with rig.playing(script):
        assert rig.driver.call_sync(0, _METHOD, "outer") == "outer answer"
    assert tool.log == [("ask back", "inner"), ("look", "seen"), ("answered", "inner answer")]


async def test_frames_that_came_in_during_a_call_in_place_are_looked_at_after_it(rig: Rig) -> None:
    tool, id, numbers = await _tool(rig)

    def script(host: ScriptedHost) -> None:
        blocked = host.request_from_worker()
        answer = host.connection.send_response(blocked.id, host.body("answered")[0])
        late, request = host.request_frame(id, numbers["work"], "late")
        host.write(answer, request)  # in one go, so that nothing more makes the socket readable
        assert host.answer(late) == "late"

    async with rig.playing(script):
        assert rig.driver.call_sync(0, _METHOD, None) == "answered"
        assert tool.log == []
    assert tool.log == [("work", "late")]


async def test_a_request_names_the_request_in_whose_service_it_is_made(rig: Rig) -> None:
    class Relay:
        async def relay(self) -> Any:
            first = await rig.driver.call(0, _METHOD, 1)
            second = await asyncio.create_task(rig.driver.call(0, _METHOD, 2))
            third = await asyncio.to_thread(rig.driver.call_sync, 0, _METHOD, 3)
            return [first, second, third, rig.driver.call_sync(0, _METHOD, 4)]

    entry = await rig.export(Relay())

    def script(host: ScriptedHost) -> None:
        relayed = host.request(entry.id, 0)
        for _ in range(4):
            request = host.request_from_worker()
            assert request.parent == relayed
            host.respond(request.id, host.value(request))
        assert host.answer(relayed) == [1, 2, 3, 4]
        unrelated = host.request_from_worker()
        assert unrelated.parent == 0
        host.respond(unrelated.id)

    async with rig.playing(script):
        await until(lambda: rig.driver.connection.incoming)
        await until(lambda: not rig.driver.connection.incoming)
        await rig.driver.call(0, _METHOD, 5)


# -- other threads and loops -------------------------------------------------------------------


async def test_a_call_from_a_thread_goes_through_while_the_loop_stands_still(rig: Rig) -> None:
    answers: list[Any] = []

    def script(host: ScriptedHost) -> None:
        blocked = host.request_from_worker()
        thread.start()
        threaded = host.request_from_worker()
        assert threaded.flags == Flag.IN_PLACE, "the loop does not stand still for this one"
        host.respond(threaded.id, "for the thread")
        thread.join(5)
        host.respond(blocked.id, "for the loop")

    thread = threading.Thread(target=lambda: answers.append(rig.driver.call_sync(0, _METHOD, "threaded")))
    async with rig.playing(script):
        answers.append(rig.driver.call_sync(0, _METHOD, "blocked"))
    assert answers == ["for the thread", "for the loop"]


async def test_what_another_thread_has_encoded_meanwhile_changes_nothing(rig: Rig) -> None:
    """An orchestrator may call a tool on another thread's loop, and what it notes for the call is tried there."""
    inside, on = threading.Event(), threading.Event()

    class SlowThere(list[Any]):
        def __iter__(self) -> Any:
            inside.set()
            on.wait(5)
            return iter(["there"])

    class SlowHere(list[Any]):
        def __iter__(self) -> Any:
            thread.start()
            assert inside.wait(5)
            return iter(["here"])

    class Tool:
        async def execute(self) -> None: ...

    told: list[Any] = []

    async def elsewhere() -> None:
        coordinator: Any = rig.coordinator
        vars(coordinator)["_tool_dispatch_contexts"] = {asyncio.current_task(): {"slow": SlowThere()}}
        told.extend(rig.driver.circumstances())

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    try:
        body, handles = rig.driver.encode([SlowHere(), Tool()])
    finally:
        on.set()
        thread.join(5)
    assert len(handles) == 1
    assert rig.driver.codec.decode(body, ["the tool"]) == [["here"], "the tool"]
    assert [list(one["dispatch_context"]) for one in told] == [["slow"]]
    rig.objects.take_back(handles)


async def test_what_a_thread_mounts_is_noted_on_the_modules_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[object, str, int]] = []
    monkeypatch.setattr(
        rig.objects, "mark_mounted", lambda obj, point: noted.append((obj, point, threading.get_ident()))
    )
    tool = object()
    async with rig.playing(lambda host: host.respond(host.request_from_worker(HostMethod.MOUNT).id)):
        await asyncio.to_thread(asyncio.run, rig.coordinator.mount("tools", tool, name="threaded"))
    assert noted == [(tool, "tools", threading.get_ident())]


async def test_a_call_given_up_on_another_loop_is_cancelled_at_the_host(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        begun.set()
        assert host.take(Kind.CANCEL).id == request.id
        host.respond(request.id, "too late")
        assert host.is_silent()

    begun = threading.Event()

    async def elsewhere() -> None:
        calling = asyncio.ensure_future(rig.driver.call(0, _METHOD, None))
        await until(begun.is_set)
        calling.cancel()
        await calling

    async with rig.playing(script):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.to_thread(asyncio.run, elsewhere())


async def test_a_notification_from_a_thread_is_sent(rig: Rig) -> None:
    async with rig.playing(lambda host: host.value(host.take(Kind.NOTIFY))) as played:
        await asyncio.to_thread(rig.driver.notify, HostMethod.RESET_TURN, ["from a thread"])
        await until(played.done)
    assert played.result() == ["from a thread"]


async def test_a_value_that_cannot_be_sent_is_the_callers_error_in_every_thread(rig: Rig) -> None:
    hostile = {"set": {bytes([number % 256]) * (number + 1) for number in range(10)}, "number": 10**2000}
    for attempt in (
        lambda: rig.driver.call_sync(0, _METHOD, hostile),
        lambda: asyncio.run(rig.driver.call(0, _METHOD, hostile)),
    ):
        with pytest.raises(Exception, match="cannot be sent"):
            await asyncio.to_thread(attempt)
    with pytest.raises(Exception, match="cannot be sent"):
        rig.driver.call_sync(0, _METHOD, hostile)
    with pytest.raises(Exception, match="cannot be sent"):
        await rig.driver.call(0, _METHOD, hostile)
    assert await rig.play(lambda host: host.is_silent())


# -- the end -----------------------------------------------------------------------------------


async def test_the_end_of_the_host_ends_every_waiting_call(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        for _ in range(5):
            host.request_from_worker()
        host.close()

    async def read() -> None:
        async for _ in rig.driver.stream(0, _METHOD, None):
            pass

    waiting = [
        asyncio.ensure_future(rig.driver.call(0, _METHOD, None)),
        asyncio.ensure_future(read()),
        asyncio.ensure_future(asyncio.to_thread(rig.driver.call_sync, 0, _METHOD, None)),
        asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(rig.driver.call(0, _METHOD, None)))),
    ]
    async with rig.playing(script):
        await until(lambda: rig.driver.connection.outgoing == 4)
        with pytest.raises(ModuleGoneError):
            rig.driver.call_sync(0, _METHOD, None)
        for ended in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(ended, ModuleGoneError)


async def test_after_the_end_every_call_fails_at_once(rig: Rig) -> None:
    await rig.play(lambda host: host.close())
    await until(lambda: not rig.driver.is_open)
    rig.driver.notify(HostMethod.RESET_TURN, [])
    with pytest.raises(ModuleGoneError):
        rig.driver.call_sync(0, _METHOD, None)
    with pytest.raises(ModuleGoneError):
        await rig.driver.call(0, _METHOD, None)
    with pytest.raises(ModuleGoneError):
        await anext(rig.driver.stream(0, _METHOD, None))
    for attempt in (
        lambda: rig.driver.call_sync(0, _METHOD, None),
        lambda: asyncio.run(rig.driver.call(0, _METHOD, None)),
    ):
        with pytest.raises(ModuleGoneError):
            await asyncio.to_thread(attempt)


async def test_a_call_posted_by_a_thread_and_not_yet_seen_ends_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends between a thread's request and the loop's next look at its mail."""
    posted, mailbox = threading.Event(), rig.driver._mailbox
    post = mailbox.post

    def post_and_say(action: Callable[[], object]) -> bool:
        accepted = post(action)
        posted.set()
        return accepted

    def in_a_thread() -> None:
        with pytest.raises(ModuleGoneError):
            rig.driver.call_sync(0, _METHOD, None)

    monkeypatch.setattr(mailbox, "post", post_and_say)
    thread = threading.Thread(target=in_a_thread)
    thread.start()
    assert posted.wait(5)  # holds the loop up, so that it cannot look
    rig.driver.close()
    thread.join(5)
    assert not thread.is_alive()


async def test_what_the_module_serves_is_cancelled_when_the_host_is_gone(rig: Rig) -> None:
    ended = asyncio.Event()

    class Slow:
        async def wait(self) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

    entry = await rig.export(Slow())
    await rig.play(lambda host: host.request(entry.id, 0))
    await until(lambda: rig.driver.connection.incoming)
    await rig.play(lambda host: host.close())
    async with asyncio.timeout(60):
        await ended.wait()


async def test_bytes_that_are_no_protocol_end_the_worker(rig: Rig) -> None:
    await rig.play(lambda host: host.write(b"\xff" * 64))
    async with asyncio.timeout(60):
        await rig.driver.closed.wait()


async def test_a_goodbye_ends_the_worker(rig: Rig) -> None:
    await rig.play(lambda host: host.write(host.connection.send_goodbye()))
    async with asyncio.timeout(60):
        await rig.driver.closed.wait()
