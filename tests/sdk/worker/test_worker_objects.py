"""Objects at the worker's end: the same number for the same object, the same stand-in for the same number."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from paddock_sdk.contract.boundary_errors import ModuleGoneError
from paddock_sdk.protocol import HandleEntry, HandleSide, Kind, RemoteProtocolError
from paddock_sdk.protocol.methods import MirrorSection
from support.scripted_end import ASYNC, SYNC

from .conftest import Rig, until
from .scripted_host import ScriptedHost

_METHOD = 77


class _Thing:
    def look(self) -> int:
        return 1

    def glance(self) -> int:
        return 2


def _entries(count: int = 1) -> Any:
    """Return a script that answers calls and returns the handle tables they came with."""

    def script(host: ScriptedHost) -> list[tuple[HandleEntry, ...]]:
        tables = []
        for _ in range(count):
            request = host.request_from_worker()
            tables.append(request.handles)
            host.respond(request.id)
        return tables

    return script


async def _sent(rig: Rig, *values: Any) -> list[tuple[HandleEntry, ...]]:
    """Return the handle tables with which the worker sends values, one call each."""
    async with rig.playing(_entries(len(values))) as played:
        for value in values:
            await rig.driver.call(0, _METHOD, value)
    return played.result()


async def test_an_object_keeps_its_number_and_is_described_the_first_time_only(rig: Rig) -> None:
    thing, other = _Thing(), _Thing()
    (first,), (again,), (another, known) = await _sent(rig, thing, thing, [other, thing])
    assert first.description and not again.description and another.description
    assert first.id == again.id == known.id != another.id


async def test_a_bound_method_is_the_same_object_each_time_it_is_taken(rig: Rig) -> None:
    thing, other = _Thing(), _Thing()
    (look,), (again,), (glance,), (others,) = await _sent(rig, thing.look, thing.look, thing.glance, other.look)
    assert look.id == again.id
    assert len({look.id, glance.id, others.id}) == 3


async def test_what_comes_back_is_the_very_same_object(rig: Rig) -> None:
    thing = _Thing()
    ((entry,),) = await _sent(rig, thing)

    def script(host: ScriptedHost) -> None:
        host.respond(host.request_from_worker().id, {"returned": host.foreign(entry.id)})

    async with rig.playing(script):
        assert (await rig.driver.call(0, _METHOD, None))["returned"] is thing


async def test_an_object_the_host_lets_go_of_is_forgotten_and_numbered_anew(rig: Rig) -> None:
    thing = _Thing()
    ((entry,), _) = await _sent(rig, thing, thing)

    def script(host: ScriptedHost) -> None:
        host.write(host.connection.send_release(entry.id, 1))
        assert host.is_silent(), "it was handed out twice"
        host.write(host.connection.send_release(entry.id, 1))
        confirmed = host.take(Kind.RELEASE)
        assert (confirmed.id, confirmed.target) == (entry.id, 0)
        with pytest.raises(RuntimeError, match="never handed out"):
            host.in_place(entry.id)

    await rig.play(script)
    gone = weakref.ref(thing)
    ((fresh,),) = await _sent(rig, thing)
    assert fresh.id != entry.id and fresh.description
    await rig.play(lambda host: host.write(host.connection.send_release(fresh.id, 1)))
    await rig.play(lambda host: host.take(Kind.RELEASE))
    del thing
    gc.collect()
    assert gone() is None


async def test_releases_of_nothing_are_ignored(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        host.write(host.connection.send_release(4711, 1), host.connection.send_release(4711, 0))
        assert host.is_silent()

    await rig.play(script)


# -- stand-ins ---------------------------------------------------------------------------------


async def _capability(rig: Rig, *lent: Any) -> Any:
    """Have the host show the worker objects one after the other; return the last as the worker sees it."""

    def script(host: ScriptedHost) -> None:
        for one in lent:
            host.mirror(MirrorSection.CAPABILITY, one, head="shown")
        host.is_silent()

    await rig.play(script)
    return rig.coordinator.get_capability("shown")


async def test_a_stand_in_calls_the_real_thing_as_its_flavour_says(rig: Rig) -> None:
    thing = await _capability(rig, rig.host.own(9, {"work": ASYNC, "look": SYNC}))
    function = await _capability(rig, rig.host.function(10))

    def script(host: ScriptedHost) -> list[Any]:
        seen = []
        for _ in range(3):
            request = host.request_from_worker()
            seen.append((request.target, request.method, bool(request.flags), host.value(request)))
            host.respond(request.id, len(seen))
        return seen

    async with rig.playing(script) as played:
        assert await thing.work(1, named=2) == 1
        assert thing.look() == 2
        assert await function("x") == 3
    assert played.result() == [
        (9, 0, False, [[1], {"named": 2}]),
        (9, 1, True, [[], {}]),
        (10, 0, False, [["x"], {}]),
    ]


async def test_the_same_number_is_the_same_stand_in_and_goes_home_as_it(rig: Rig) -> None:
    first = await _capability(rig, rig.host.own(9))
    assert await _capability(rig, rig.host.again(9)) is first
    assert await _sent(rig, first) == [(HandleEntry(HandleSide.RECEIVER, 9),)]


async def test_an_unused_stand_in_is_let_go_with_how_often_it_came(rig: Rig) -> None:
    thing = await _capability(rig, rig.host.own(9), rig.host.again(9))
    await _capability(rig, rig.host.again(9), "something else")
    del thing
    gc.collect()

    def script(host: ScriptedHost) -> None:
        host.is_silent()  # the worker says what it let go of once it hears something
        release = host.take(Kind.RELEASE)
        assert (release.id, release.target) == (9, 3)

    await rig.play(script)


async def test_an_object_released_in_flight_is_not_described_again(rig: Rig) -> None:
    await _capability(rig, rig.host.own(9, {"work": ASYNC}, colour="red"), "something else")
    gc.collect()

    def script(host: ScriptedHost) -> None:
        host.is_silent()
        assert host.take(Kind.RELEASE).target == 1
        host.mirror(MirrorSection.CAPABILITY, host.again(9), head="shown")  # sent before the release was read
        host.is_silent()

    await rig.play(script)
    thing = rig.coordinator.get_capability("shown")
    assert thing.colour == "red"
    assert hasattr(thing, "work")


async def test_a_released_object_comes_described_or_not_at_all(rig: Rig) -> None:
    await _capability(rig, rig.host.own(9, colour="red"), "something else")
    gc.collect()

    def script(host: ScriptedHost) -> None:
        host.is_silent()
        host.take(Kind.RELEASE)
        host.write(host.connection.send_release(9, 0))
        request = host.request_from_worker()
        host.respond(request.id, host.again(9))

    async with rig.playing(script):
        with pytest.raises(RemoteProtocolError, match="without a description"):
            await rig.driver.call(0, _METHOD, None)
    assert (await _capability(rig, rig.host.own(9, colour="blue"))).colour == "blue"


async def test_objects_in_an_unawaited_answer_count_and_are_let_go(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        host.take(Kind.CANCEL)
        host.respond(request.id, [host.own(9, colour="red"), host.again(9)])
        host.is_silent()
        release = host.take(Kind.RELEASE)
        assert (release.id, release.target) == (9, 2)
        host.mirror(MirrorSection.CAPABILITY, host.again(9), head="shown")
        host.is_silent()

    async with rig.playing(script):
        calling = asyncio.ensure_future(rig.driver.call(0, _METHOD, None))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    assert rig.coordinator.get_capability("shown").colour == "red"


async def test_a_new_description_shows_in_the_stand_in_at_hand(rig: Rig) -> None:
    tool = await _capability(rig, rig.host.own(9, {"execute": ASYNC}, name="tool", description="old"))
    description = rig.host.describe({"execute": ASYNC}, name="tool", description="new")
    await rig.play(
        lambda host: host.write(host.connection.send_mirror(MirrorSection.DESCRIPTION, description, target=9))
    )
    await until(lambda: tool.description == "new")
    assert tool.name == "tool"


async def test_newer_data_shows_in_the_stand_in_at_hand(rig: Rig) -> None:
    tool = await _capability(rig, rig.host.own(9, {"execute": ASYNC}, name="tool", description="old"))
    tool.name = "its own"
    await rig.play(lambda host: host.mirror(MirrorSection.DATA, [{"colour": "red"}, ["description"]], target=9))
    await until(lambda: hasattr(tool, "colour"))
    assert not hasattr(tool, "description")
    assert tool.name == "its own", "what a module sets stays until the owner says otherwise of that very attribute"


async def test_a_new_stand_in_shows_newer_data(rig: Rig) -> None:
    await _capability(rig, rig.host.own(9, {"work": ASYNC}, colour="red"), "something else")
    gc.collect()

    def script(host: ScriptedHost) -> None:
        host.is_silent()
        host.take(Kind.RELEASE)
        host.mirror(MirrorSection.DATA, [{"colour": "blue"}, []], target=9)
        host.mirror(MirrorSection.CAPABILITY, host.again(9), head="shown")
        host.is_silent()

    await rig.play(script)
    assert rig.coordinator.get_capability("shown").colour == "blue"


async def test_a_stand_in_outlives_the_host_as_an_object_that_is_gone(rig: Rig) -> None:
    thing = await _capability(rig, rig.host.own(9, {"work": ASYNC, "look": SYNC}, name="thing"))
    await rig.play(lambda host: host.close())
    await until(lambda: not rig.driver.is_open)
    assert thing.name == "thing"
    with pytest.raises(ModuleGoneError):
        await thing.work()
    with pytest.raises(ModuleGoneError):
        thing.look()


async def test_an_object_whose_property_fails_the_second_time_can_be_handed_out(rig: Rig) -> None:
    class Moody:
        looked = 0

        @property
        def mood(self) -> Any:
            self.looked += 1
            if self.looked > 1:
                raise OSError("not today")
            return lambda: "good"

    ((entry,),) = await _sent(rig, Moody())
    assert [member.name for member in rig.host.description(entry).members] == ["mood"]
