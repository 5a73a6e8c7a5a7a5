"""What goes wrong at a worker's edges stays where it went wrong: with one frame, one call, one value, one thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from paddock_sdk.contract.boundary_errors import ModuleGoneError, RefusedError
from paddock_sdk.protocol import Flag, HandleEntry, HandleSide, Kind
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.frames import MAX_DESCRIPTION_BYTES
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from paddock_sdk.protocol.shared_state import SharedState
from support.scripted_end import ASYNC, SYNC

from .conftest import Rig, until
from .scripted_host import ScriptedHost

_METHOD = 77


# -- frames that cannot be acted on ------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "body"),
    [
        pytest.param(MirrorSection.STATE, b"\xc1", id="bytes that are no value"),
        pytest.param(MirrorSection.CAPABILITY, b"\xc1", id="a name that is none"),
        pytest.param(MirrorSection.CAPABILITY, b"\x90\xc0", id="a name that is a list"),
        pytest.param(MirrorSection.ATTRIBUTE, b"\xa5hooks\xc0", id="an attribute that cannot be set"),
        pytest.param(MirrorSection.MOUNTED, b"\x93\xa7nowhere\xa1x\xc0", id="a place that there is not"),
        pytest.param(MirrorSection.DESCRIPTION, b"\xc1", id="a description that is none"),
        pytest.param(MirrorSection.DATA, b"\x92\x80\x90", id="the data of an object that it was never handed"),
    ],
)
async def test_a_change_that_cannot_be_applied_costs_the_ones_behind_it_nothing(
    section: MirrorSection, body: bytes, rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def script(host: ScriptedHost) -> None:
        broken = host.connection.send_mirror(section, body)
        good = host.connection.send_mirror(MirrorSection.STATE, host.body([[["goal"], [1]]])[0])
        host.write(broken, good)
        assert host.grant(HostMethod.MOUNT)[:2] == ["tools", "mine"]

    class Tool:
        name = "mine"

    async with rig.playing(script):
        await until(lambda: rig.coordinator.session_state)
        rig.coordinator.mount("tools", Tool())
        assert [*rig.coordinator.get("tools")] == ["mine"]
    assert rig.coordinator.session_state == {"goal": 1}
    assert "could not be acted on" in caplog.text


async def test_an_answer_brings_its_objects_before_the_next_frame_refers_to_them(rig: Rig) -> None:
    """The caller only runs after both frames were looked at, so what the answer describes must be known by then."""

    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        body, handles = host.body(host.own(9, {"look": SYNC}, colour="red"))
        answer = host.connection.send_response(request.id, body, handles)
        body, handles = host.body(host.again(9), "shown")
        host.write(answer, host.connection.send_mirror(MirrorSection.CAPABILITY, body, handles))

    async with rig.playing(script):
        answered = await rig.driver.call(0, _METHOD, None)
        await until(lambda: rig.coordinator.get_capability("shown"))
    assert rig.coordinator.get_capability("shown") is answered


async def test_objects_in_an_answer_that_meets_its_cancellation_are_let_go(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        given_up, in_place = host.request_from_worker(), host.request_from_worker()
        host.respond(given_up.id, host.own(9))
        host.respond(in_place.id)
        host.is_silent()
        release = host.take(Kind.RELEASE)
        assert (release.id, release.target) == (9, 1)

    async with rig.playing(script):
        calling = asyncio.ensure_future(rig.driver.call(0, _METHOD, None))
        await asyncio.sleep(0)
        calling.cancel()
        rig.driver.call_sync(0, _METHOD, None)
        with pytest.raises(asyncio.CancelledError):
            await calling


# -- streams -----------------------------------------------------------------------------------


async def test_a_source_is_closed_before_its_call_ends(rig: Rig) -> None:
    class Source:
        async def items(self) -> AsyncIterator[object]:
            try:
                yield 10**5000
            finally:
                await rig.driver.call(0, _METHOD, "closing")

    entry = await rig.export(Source())

    def script(host: ScriptedHost) -> None:
        id = host.request(entry.id, 0, flags=Flag.STREAM)
        host.write(host.connection.send_credit(id, 1))
        closing = host.next()
        assert (closing.kind, closing.parent) == (Kind.REQUEST, id)
        host.respond(closing.id)
        with pytest.raises(Exception, match="cannot be sent"):
            host.answer(id)

    await rig.play(script)


async def test_an_iterator_of_another_kind_is_a_source_too(rig: Rig) -> None:
    class Numbers:
        def __init__(self) -> None:
            self.left = [1, 2]

        def __aiter__(self) -> Numbers:
            return self

        async def __anext__(self) -> int:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    async def described() -> AsyncIterator[int]:
        yield 0

    def source() -> Numbers:
        return Numbers()

    source.__wrapped__ = described  # type: ignore[attr-defined]
    entry = await rig.export(source)

    def script(host: ScriptedHost) -> list[Any]:
        id = host.request(entry.id, 0, flags=Flag.STREAM)
        host.write(host.connection.send_credit(id, 5))
        items = [host.value(host.take(Kind.ITEM)) for _ in range(2)]
        assert host.answer(id) is None
        return items

    assert await rig.play(script) == [1, 2]


# -- other threads -----------------------------------------------------------------------------


async def test_answers_for_other_threads_are_decoded_on_the_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    resolve = rig.objects.resolve

    def noting(entry: HandleEntry) -> object:
        threads.add(threading.get_ident())
        return resolve(entry)

    monkeypatch.setattr(rig.objects, "resolve", noting)

    def script(host: ScriptedHost) -> None:
        for number in (8, 9):
            host.respond(host.request_from_worker().id, host.own(number, colour="red"))

    async with rig.playing(script):
        in_place = await asyncio.to_thread(rig.driver.call_sync, 0, _METHOD, None)
        awaited = await asyncio.to_thread(lambda: asyncio.run(rig.driver.call(0, _METHOD, None)))
    assert (in_place.colour, awaited.colour) == ("red", "red")
    assert threads == {threading.get_ident()}


async def test_what_a_thread_cannot_say_harms_no_bystander(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        thread.start()
        thread.join(5)
        host.respond(request.id, "answered")

    thread = threading.Thread(target=rig.driver.notify, args=(HostMethod.RESET_TURN, 10**2000))
    async with rig.playing(script):
        assert rig.driver.call_sync(0, _METHOD, None) == "answered"
        await until(lambda: "another thread" in caplog.text)


async def test_threads_at_the_hosts_end_meet_no_closed_descriptor(rig: Rig) -> None:
    problems: list[BaseException] = []
    begun = threading.Barrier(5)

    def chatter() -> None:
        begun.wait(5)
        try:
            while True:
                rig.driver.notify(HostMethod.RESET_TURN, [])
        except ModuleGoneError:
            pass
        except BaseException as exc:
            problems.append(exc)

    threads = [threading.Thread(target=chatter) for _ in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(begun.wait, 5)
    await rig.play(lambda host: host.close())
    for thread in threads:
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()
    assert problems == []


# -- refusals ----------------------------------------------------------------------------------


class _Tool:
    name = "echo"

    async def execute(self, input: Any) -> None: ...


def _refuse(method: HostMethod) -> Any:
    return lambda host: host.fail(host.request_from_worker(method).id, RefusedError("it is another's"))


async def test_a_refused_takeover_leaves_what_was_mounted(rig: Rig) -> None:
    coordinator = rig.coordinator

    def script(host: ScriptedHost) -> None:
        host.mirror(MirrorSection.MOUNTED, ["tools", "echo", host.own(9, {"execute": ASYNC}, name="echo")])
        host.mirror(MirrorSection.MOUNTED, ["context", None, host.own(10, {"add_message": ASYNC})])

    await rig.play(script)
    await until(lambda: coordinator.get("context"))
    tool, context = coordinator.get("tools", "echo"), coordinator.get("context")
    attempts = [
        (HostMethod.MOUNT, lambda: coordinator.mount("tools", _Tool())),
        (HostMethod.MOUNT, lambda: coordinator.mount("context", _Tool())),
        (HostMethod.UNMOUNT, lambda: coordinator.unmount("tools", "echo")),
        (HostMethod.UNMOUNT, lambda: coordinator.unmount("context")),
        (HostMethod.UNMOUNT, lambda: coordinator.mount_points["tools"].clear()),
    ]
    for method, attempt in attempts:
        async with rig.playing(_refuse(method)):
            with pytest.raises(PermissionError):
                attempt()
        assert coordinator.get("tools") == {"echo": tool}
        assert coordinator.get("context") is context


async def test_a_refused_second_mount_leaves_the_modules_own_first(rig: Rig) -> None:
    first = _Tool()
    async with rig.playing(lambda host: host.grant(HostMethod.MOUNT)):
        rig.coordinator.mount("tools", first)
    async with rig.playing(_refuse(HostMethod.MOUNT)):
        with pytest.raises(PermissionError):
            rig.coordinator.mount("tools", _Tool())
    assert rig.coordinator.get("tools", "echo") is first
    async with rig.playing(lambda host: host.grant(HostMethod.UNMOUNT)):
        rig.coordinator.unmount("tools", "echo")
    assert rig.coordinator.get("tools") == {}


async def test_the_hosts_last_word_stands_when_others_act_while_it_is_asked(rig: Rig) -> None:
    coordinator, mine = rig.coordinator, _Tool()

    def script(host: ScriptedHost) -> None:
        for accept in (True, False):
            request = host.request_from_worker(HostMethod.MOUNT)
            host.mirror(MirrorSection.MOUNTED, ["tools", "echo", host.own(9 if accept else 10, {"execute": ASYNC})])
            if accept:
                host.respond(request.id)
            else:
                host.fail(request.id, RefusedError("it is another's"))
        for accept in (True, False):
            request = host.request_from_worker(HostMethod.REGISTER_CAPABILITY)
            host.mirror(MirrorSection.CAPABILITY, f"another's {accept}", head="offered")
            if accept:
                host.respond(request.id)
            else:
                host.fail(request.id, RefusedError("it is another's"))

    async with rig.playing(script):
        coordinator.mount("tools", mine)
        assert coordinator.get("tools", "echo") is mine
        with pytest.raises(PermissionError):
            coordinator.mount("tools", _Tool())
        assert "another process" in repr(coordinator.get("tools", "echo"))
        coordinator.register_capability("offered", "mine")
        assert coordinator.get_capability("offered") == "mine"
        with pytest.raises(PermissionError):
            coordinator.register_capability("offered", "mine again")
        assert coordinator.get_capability("offered") == "another's False"


async def test_a_refused_capability_is_not_offered_here_either(rig: Rig) -> None:
    async with rig.playing(_refuse(HostMethod.REGISTER_CAPABILITY)):
        with pytest.raises(PermissionError):
            rig.coordinator.register_capability("offered", 1)
    assert rig.coordinator.to_dict()["capabilities"] == []
    async with rig.playing(lambda host: host.respond(host.request_from_worker().id)):
        rig.coordinator.register_capability("offered", None)
    async with rig.playing(_refuse(HostMethod.REGISTER_CAPABILITY)):
        with pytest.raises(PermissionError):
            rig.coordinator.register_capability("offered", 2)
    assert rig.coordinator.to_dict()["capabilities"] == ["offered"]
    assert rig.coordinator.get_capability("offered") is None


# -- what is not the host's business -----------------------------------------------------------


class _Key(BaseModel):
    model_config = ConfigDict(frozen=True)
    number: int


async def test_what_others_could_not_read_is_not_told(rig: Rig) -> None:
    """A host ends the module whose notification it cannot make sense of."""
    coordinator: Any = rig.coordinator
    coordinator.cache = {_Key(number=1): "one"}
    setattr(coordinator, "__private", 1)
    setattr(coordinator, "no name", 1)
    setattr(coordinator, "x" * 300, 1)
    state = coordinator.session_state
    state["by model"] = {_Key(number=1): "one"}
    state[_Key(number=2)] = "two"
    state[object()] = "three"
    state[(1, "a")] = "four"
    assert await rig.play(lambda host: host.value(_notice(host))) == [[[(1, "a")], ["four"]]]
    assert await rig.play(lambda host: host.is_silent())
    assert coordinator.cache == {_Key(number=1): "one"}


def _notice(host: ScriptedHost) -> Any:
    id = host.request(0, 99, raw={})
    with pytest.raises(ValueError, match="no method"):
        host.answer(id)
    notice = host.next()
    assert notice.method == HostMethod.PATCH_STATE
    return notice


def test_a_value_that_cannot_change_in_place_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(Codec):
        packed: list[object] = []

        def encode(self, value: object, *, live_objects: bool = True) -> tuple[bytes, list[object]]:
            self.packed.append(value)
            return super().encode(value, live_objects=live_objects)

    codec = Counting()
    state = SharedState(codec)
    text, notes = "x" * 10_000, ["a"]
    state.live.update(text=text, notes=notes)
    assert [path for path, _ in state.changes()] == [["text"], ["notes"]]
    codec.packed.clear()
    assert state.changes() == []
    assert codec.packed == [notes]
    state.live["text"] = "y"
    notes.append("b")
    assert state.changes() == [[["text"], ["y"]], [["notes"], [["a", "b"]]]]
    state.apply([[["text"], ["z"]]])
    state.live["text"] = "y"
    assert state.changes() == [[["text"], ["y"]]], "others wrote in between, so it is news again"
    del state.live["text"]
    assert state.changes() == [[["text"], []]]
    state.live["text"] = text
    assert state.changes() == [[["text"], [text]]]


async def test_data_that_outgrew_its_description_is_left_out_of_the_next(rig: Rig) -> None:
    class Growing(_Tool):
        log = ""
        calls = 0

        async def execute(self, input: Any) -> None:
            self.calls += 1
            self.log = "x" * 300_000

    def mount(host: ScriptedHost) -> HandleEntry:
        request = host.request_from_worker(HostMethod.MOUNT)
        host.respond(request.id)
        return request.handles[0]

    async with rig.playing(mount) as mounted:
        rig.coordinator.mount("tools", Growing())
    entry = mounted.result()

    def script(host: ScriptedHost) -> bytes:
        id = host.request(entry.id, 0, {})
        _, description = host.value(host.take(Kind.NOTIFY))
        host.answer(id)
        assert isinstance(description, bytes)
        return description

    description = await rig.play(script)
    assert len(description) <= MAX_DESCRIPTION_BYTES
    attributes = rig.host.description(HandleEntry(HandleSide.SENDER, entry.id, description)).attributes
    assert attributes == {"name": "echo", "calls": 1}


# -- the host's goodbye ------------------------------------------------------------------------


async def test_what_is_cancelled_at_the_goodbye_may_still_ask_the_host(rig: Rig) -> None:
    class Tidy:
        async def work(self) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await rig.driver.call(0, _METHOD, "tidying up")

    entry = await rig.export(Tidy())

    def script(host: ScriptedHost) -> None:
        id, request = host.request_frame(entry.id, 0)
        host.write(request, host.connection.send_goodbye())
        tidying = host.request_from_worker()
        assert (host.value(tidying), tidying.parent) == ("tidying up", id)
        host.respond(tidying.id)
        with pytest.raises(asyncio.CancelledError):
            host.answer(id)

    await rig.play(script)
    async with asyncio.timeout(60):
        await rig.driver.closed.wait()


@pytest.mark.costly
async def test_what_will_not_end_at_the_goodbye_is_waited_for_a_second(rig: Rig) -> None:
    over = asyncio.Event()

    class Stubborn:
        async def work(self) -> None:
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue

    entry = await rig.export(Stubborn())
    await rig.play(lambda host: host.request(entry.id, 0))
    await until(lambda: rig.driver.connection.incoming)
    begun = time.monotonic()
    await rig.play(lambda host: host.write(host.connection.send_goodbye()))
    async with asyncio.timeout(60):
        await rig.driver.closed.wait()
    assert 0.9 < time.monotonic() - begun < 60
    over.set()


@pytest.mark.costly
async def test_a_call_in_place_ends_within_a_second_of_the_goodbye(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        host.request_from_worker()
        host.write(host.connection.send_goodbye())

    begun = time.monotonic()
    async with rig.playing(script):
        with pytest.raises(ModuleGoneError):
            rig.driver.call_sync(0, _METHOD, None)
    assert time.monotonic() - begun < 60  # no answer ever comes


async def test_a_call_in_place_is_still_answered_after_the_goodbye(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        host.write(host.connection.send_goodbye())
        host.respond(request.id, "answered")

    async with rig.playing(script):
        assert rig.driver.call_sync(0, _METHOD, None) == "answered"
