"""Other modules' mounts at the worker's end: unread until module code looks, and never seen out of order."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from paddock_sdk.protocol import HandleEntry, Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC

from .conftest import Rig
from .scripted_host import SECONDS, ScriptedHost

_METHOD = 77


class _Mine:
    name = "x"


def _mount(host: ScriptedHost, place: str, id: int, **attributes: Any) -> None:
    host.mirror(MirrorSection.MOUNTED, ["tools", place, host.own(id, {"execute": ASYNC}, **attributes)])


async def _mounted(rig: Rig, *names: str) -> None:
    """Have others mount tools, the first of them under the host's number 1."""

    def script(host: ScriptedHost) -> None:
        for id, name in enumerate(names, 1):
            _mount(host, name, id, name=name)
        host.is_silent()  # so the worker has acted on them

    await rig.play(script)


def _stand_ins(rig: Rig) -> int:
    return len(rig.objects._stand_ins)


async def test_a_mount_by_another_takes_no_stand_in_until_module_code_looks(rig: Rig) -> None:
    await _mounted(rig, "first", "second")
    assert _stand_ins(rig) == 0
    assert rig.coordinator.get("tools", "second").name == "second"
    assert _stand_ins(rig) == 2


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda coordinator: [*coordinator.get("tools")], id="get"),
        pytest.param(lambda coordinator: [*coordinator.get_mounted("tools")], id="get_mounted"),
        pytest.param(lambda coordinator: [*coordinator.mount_points["tools"]], id="mount_points"),
        pytest.param(lambda coordinator: coordinator.to_dict()["tools"], id="to_dict"),
    ],
)
async def test_each_way_to_look_shows_what_is_mounted(look: Any, rig: Rig) -> None:
    await _mounted(rig, "first", "second")
    assert look(rig.coordinator) == ["first", "second"]
    await _mounted(rig, "third")
    assert look(rig.coordinator) == ["first", "second", "third"]


async def test_a_dict_of_tools_that_was_looked_at_once_stays_current(rig: Rig) -> None:
    tools = rig.coordinator.get("tools")
    await _mounted(rig, "first")
    assert [*tools] == ["first"]
    await rig.play(lambda host: (host.mirror(MirrorSection.UNMOUNTED, ["tools", "first"]), host.is_silent()))
    assert [*tools] == []


async def test_a_look_from_another_thread_shows_what_is_mounted(rig: Rig) -> None:
    await _mounted(rig, "first")
    assert await asyncio.to_thread(lambda: [*rig.coordinator.get("tools")]) == ["first"]


async def test_a_look_from_a_thread_that_the_loop_waits_for_waits_for_no_loop(rig: Rig) -> None:
    await _mounted(rig, "first")
    seen: list[str] = []
    looking = threading.Thread(target=lambda: seen.extend(rig.coordinator.get("tools")))
    looking.start()
    looking.join(SECONDS)  # the loop stands still meanwhile
    assert seen == ["first"]


@pytest.fixture
async def caught_up(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[], None]]:
    """Have another thread be in the middle of reading a mount; return what lets it go on."""
    await _mounted(rig, "first")
    is_reading, may_go_on = threading.Event(), threading.Event()
    resolve = rig.objects.resolve

    def slowly(entry: HandleEntry) -> object:
        if threading.current_thread() is looking:
            is_reading.set()
            assert may_go_on.wait(SECONDS)
        return resolve(entry)

    monkeypatch.setattr(rig.objects, "resolve", slowly)
    looking = threading.Thread(target=lambda: rig.coordinator.get("tools", "first"))
    looking.start()
    assert is_reading.wait(SECONDS)
    yield may_go_on.set
    may_go_on.set()
    looking.join(SECONDS)


async def test_a_look_waits_for_another_threads_that_is_not_done(rig: Rig, caught_up: Callable[[], None]) -> None:
    threading.Timer(0.05, caught_up).start()
    assert rig.coordinator.get("tools", "first").name == "first"


async def test_an_own_capability_is_reported_while_another_thread_reads(
    rig: Rig, caught_up: Callable[[], None]
) -> None:
    def accept(host: ScriptedHost) -> None:
        host.respond(host.request_from_worker(HostMethod.REGISTER_CAPABILITY).id)

    async with rig.playing(accept):
        rig.coordinator.register_capability("mine", 1)
    caught_up()


async def test_a_frame_that_refers_to_an_object_waits_for_its_reader(rig: Rig, caught_up: Callable[[], None]) -> None:
    threading.Timer(0.05, caught_up).start()
    async with rig.playing(lambda host: host.respond(host.request_from_worker().id, host.again(1))):
        lent = await rig.driver.call(0, _METHOD, None)
    assert lent is rig.coordinator.get("tools", "first")


async def test_a_later_frame_may_refer_to_the_object_of_an_unread_mount(rig: Rig) -> None:
    await _mounted(rig, "first")
    async with rig.playing(lambda host: host.respond(host.request_from_worker().id, host.again(1))):
        lent = await rig.driver.call(0, _METHOD, None)
    assert lent is rig.coordinator.get("tools", "first")


async def test_newer_data_of_an_unread_mount_is_not_lost(rig: Rig) -> None:
    await _mounted(rig, "first")

    def script(host: ScriptedHost) -> None:
        host.write(host.connection.send_mirror(MirrorSection.DATA, host.body([{"colour": "red"}, []])[0], target=1))
        host.is_silent()

    await rig.play(script)
    assert rig.coordinator.get("tools", "first").colour == "red"


async def test_the_own_mount_in_anothers_place_is_the_later_one(rig: Rig) -> None:
    await _mounted(rig, "x", "y")
    mine = _Mine()
    async with rig.playing(lambda host: host.grant(HostMethod.MOUNT)):
        rig.coordinator.mount("tools", mine)
    assert rig.coordinator.get("tools", "x") is mine
    await _mounted(rig, "x")
    assert rig.coordinator.get("tools", "x") is not mine


async def test_after_a_refused_mount_the_other_stands_in_its_place(rig: Rig) -> None:
    await _mounted(rig, "x")

    def refuse(host: ScriptedHost) -> None:
        host.fail(host.request_from_worker(HostMethod.MOUNT).id, ValueError("it is taken"))

    async with rig.playing(refuse):
        with pytest.raises(ValueError, match="it is taken"):
            rig.coordinator.mount("tools", _Mine())
    assert rig.coordinator.get("tools", "x").name == "x"


@pytest.mark.parametrize(("times", "size", "least"), [(40, 40_000, 20), (800, 0, 400)])
async def test_mounts_without_end_are_kept_within_a_bound(times: int, size: int, least: int, rig: Rig) -> None:
    """The earliest are read and dropped before the module looks for one; the host sees their releases."""

    def script(host: ScriptedHost) -> None:
        for id in range(1, times + 1):
            _mount(host, "x", id, text="x" * size)
            host.mirror(MirrorSection.UNMOUNTED, ["tools", "x"])
        host.is_silent()

    def released(host: ScriptedHost) -> list[int]:
        host.is_silent()
        return [frame.id for frame in host.frames if frame.kind == Kind.RELEASE]

    await rig.play(script)
    gc.collect()
    dropped = await rig.play(released)
    assert least <= len(dropped) < times
    assert sorted(dropped) == [*range(1, len(dropped) + 1)]


async def test_an_unread_mount_is_released_once_it_was_read_and_dropped(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        _mount(host, "x", 1)
        host.mirror(MirrorSection.UNMOUNTED, ["tools", "x"])
        host.is_silent()

    await rig.play(script)
    assert rig.coordinator.get("tools", "x") is None
    gc.collect()

    def released(host: ScriptedHost) -> tuple[int, int]:
        host.request(0, 99, raw={})
        frame = host.take(Kind.RELEASE)
        return frame.id, frame.target

    assert await rig.play(released) == (1, 1)
