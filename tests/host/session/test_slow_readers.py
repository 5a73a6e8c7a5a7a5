"""A worker that does not read is told the last state when it reads again, and costs no other worker anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.session import module as hosted_module
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.body import unpack_prefix
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from paddock_sdk.protocol.shared_state import patch
from support.scripted_end import ASYNC

from ..rpc.scripted_worker import ScriptedWorker, until
from .conftest import Hosted, changes, tool

_MUCH = "x" * 500_000


async def _fill(hosted: Hosted, writer: ScriptedWorker, reader: Any) -> int:
    """Have a worker write state until another is behind; return the last number written."""
    number = 0
    while reader.peer.channel.backlog is None:
        number += 1
        await writer.tell(HostMethod.PATCH_STATE, [[["filling"], [{"number": number, "much": _MUCH}]]])
    return number


def _state(worker: ScriptedWorker) -> dict[Any, Any]:
    """Return what a worker knows of the state from the changes it has heard since it was last asked."""
    state: dict[Any, Any] = {}
    for told in changes(worker, MirrorSection.STATE):
        for path, value in told:
            patch(state, path, value)
    return state


@pytest.mark.costly
async def test_a_reader_that_is_behind_gets_the_last_value_of_each_key(hosted: Hosted) -> None:
    module, writer = await hosted.start("tool", "tool-writer")
    reader, slow = await hosted.start("tool", "tool-reader")
    slow.stop_reading()
    filled = len(slow.heard(Kind.MIRROR)) + await _fill(hosted, writer, reader)
    unsent = reader.peer.channel.unsent_bytes
    for number in range(300):
        writer.notify(HostMethod.PATCH_STATE, [[["filling", "number"], [number]]])
        writer.notify(HostMethod.PATCH_STATE, [[[f"key{number % 3}"], [[number, "y" * 10_000]]]])
        writer.notify(HostMethod.PATCH_STATE, [[["deep"], [{}]], [["deep", f"part{number}"], [number]]])
        writer.notify(HostMethod.PATCH_STATE, [[[f"passing{number}"], [number]]])
        writer.notify(HostMethod.PATCH_STATE, [[[f"passing{number}"], []]])
    await writer.round_trip()
    assert reader.peer.channel.unsent_bytes == unsent
    keys = ("filling", *(f"passing{number}" for number in range(300)))
    kept = [key for key in keys if reader.peer.channel.backlog.kept(("state", key))]
    assert kept == ["filling"], "what has passed is forgotten"
    slow.read_on()
    await until(lambda: reader.peer.channel.backlog is None)
    await slow.round_trip()
    assert len(slow.heard(Kind.MIRROR)) < filled + 10, "no more than there are keys"
    state = _state(slow)
    assert (state["filling"]["number"], state["filling"]["much"]) == (299, _MUCH)
    assert [state[f"key{rest}"][0] for rest in range(3)] == [297, 298, 299]
    assert state["deep"] == {"part299": 299}
    assert not [key for key in state if str(key).startswith("passing")]
    assert not module.reports and not reader.reports


async def test_many_changes_of_one_key_become_the_whole_of_it(hosted: Hosted) -> None:
    _, writer = await hosted.start("tool", "tool-writer")
    reader, slow = await hosted.start("tool", "tool-reader")
    await writer.tell(HostMethod.PATCH_STATE, [[["deep"], [{}]], [["gone"], [1]]])
    slow.stop_reading()
    await _fill(hosted, writer, reader)
    for number in range(200):
        writer.notify(HostMethod.PATCH_STATE, [[["deep", f"part{number}"], [number]]])
    await writer.tell(HostMethod.PATCH_STATE, [[["gone"], []]])
    slow.read_on()
    await until(lambda: reader.peer.channel.backlog is None)
    await slow.round_trip()
    told = changes(slow, MirrorSection.STATE)
    assert [change for change in told if change[0][0][0] == "deep"][-1] == [
        [["deep"], [{f"part{number}": number for number in range(200)}]]
    ]
    assert [[["gone"], []]] in told


async def test_capabilities_mounts_and_events_are_told_as_they_are_in_the_end(hosted: Hosted) -> None:
    maker, making = await hosted.start("tool", "tool-maker")
    reader, slow = await hosted.start("tool", "tool-reader")
    slow.stop_reading()
    filled = len(slow.heard(Kind.MIRROR)) + await _fill(hosted, making, reader)
    for number in range(50):
        offered = making.own(100 + number, {"work": ASYNC}, number=number)
        await making.ask(0, HostMethod.REGISTER_CAPABILITY, offered, head="offered")
        hosted.coordinator.hooks.register(f"event {number}", lambda event, data: None)()
        await making.ask(0, HostMethod.MOUNT, ["tools", f"tool{number}", making.again(100 + number)])
        if number < 49:
            await making.ask(0, HostMethod.UNMOUNT, ["tools", f"tool{number}"])
    hosted.coordinator.hooks.register("heard", lambda event, data: None)
    slow.read_on()
    await until(lambda: reader.peer.channel.backlog is None)
    await slow.round_trip()
    assert len(slow.heard(Kind.MIRROR)) < filled + 10
    assert [event for event, is_heard in changes(slow, MirrorSection.HEARD) if is_heard] == ["heard"]
    capability = slow.heard(Kind.MIRROR)
    (told,) = [frame for frame in capability if frame.method == MirrorSection.CAPABILITY]
    name, _ = unpack_prefix(told.body)
    assert name == "offered"
    assert slow.description(told.handles[0]).attributes == {"number": 49}
    mounted = [frame for frame in capability if frame.method == MirrorSection.MOUNTED]
    assert [slow.codec.decode(frame.body, frame.handles)[1] for frame in mounted] == ["tool49"]
    assert not maker.reports and not reader.reports


async def test_what_is_said_later_comes_after_the_state_it_may_rely_on(hosted: Hosted) -> None:
    _, writer = await hosted.start("tool", "tool-writer")
    reader, slow = await hosted.start("tool", "tool-reader", tool("slow"))
    slow.stop_reading()
    await _fill(hosted, writer, reader)
    await writer.tell(HostMethod.PATCH_STATE, [[["late"], [1]]])
    calling = asyncio.ensure_future(hosted.coordinator.get("tools")["slow"].execute({}))
    await until(reader.peer.channel.calls.running)
    writer.notify(HostMethod.PATCH_STATE, [[["late"], [2]]])
    await writer.tell(HostMethod.PATCH_STATE, [[["later"], [3]]])
    slow.read_on()
    request = await slow.request_from_host()
    kinds = [frame for frame in slow.heard(Kind.MIRROR) if frame.method == MirrorSection.STATE]
    assert _last(slow, kinds, "late") == 2, "told before the request, as it is by then"
    slow.respond(request.id, None)
    await asyncio.gather(calling, return_exceptions=True)


def _last(worker: ScriptedWorker, frames: list[Any], key: str) -> Any:
    told = [change for frame in frames for change in worker.codec.decode(frame.body) if change[0] == [key]]
    return told[-1][1][0]


@pytest.mark.costly
@pytest.mark.parametrize("is_called", [False, True])
async def test_who_reads_nothing_is_ended_after_a_while_unless_it_serves_a_call(
    is_called: bool, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "_UNREAD_SECONDS", 0.3)
    bystander, writer = await hosted.start("tool", "tool-writer")
    reader, slow = await hosted.start("tool", "tool-reader", tool("slow"))
    calling = None
    if is_called:
        calling = asyncio.ensure_future(hosted.coordinator.get("tools")["slow"].execute({}))
        await slow.request_from_host()
    slow.stop_reading()
    await writer.tell(HostMethod.PATCH_STATE, [[["key"], [1]]])
    if calling is None:
        await until(lambda: reader.reports)
        (report,) = reader.reports
        assert report.reason.value == "protocol"
        assert "does not read" in report.detail
    else:
        await asyncio.sleep(1.0)  # more than three times as long as anybody without a call has
        assert not reader.reports
        calling.cancel()
    await writer.round_trip()
    assert not bystander.reports


async def test_who_has_read_everything_is_left_alone(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_module, "_UNREAD_SECONDS", 0.1)
    module, _ = await hosted.start("tool", "tool-idle")
    _, writer = await hosted.start("tool", "tool-writer")
    for number in range(10):
        await writer.tell(HostMethod.PATCH_STATE, [[["key"], [number]]])
        await asyncio.sleep(0.05)
    await until(lambda: not module.peer.channel._reading.is_on)  # type: ignore[union-attr]
    assert not module.reports


async def test_a_reader_that_is_behind_gets_its_own_change_after_those_before_it(hosted: Hosted) -> None:
    _, writer = await hosted.start("tool", "tool-writer")
    reader, slow = await hosted.start("tool", "tool-reader")
    slow.stop_reading()
    await _fill(hosted, writer, reader)
    await writer.tell(HostMethod.PATCH_STATE, [[["notes"], ["other"]], [["passing"], ["other"]]])
    slow.notify(HostMethod.PATCH_STATE, [[["notes"], ["own"]]])
    slow.notify(HostMethod.PATCH_STATE, [[["passing"], ["own"]]])
    await until(lambda: hosted.coordinator.session_state.get("passing") == "own")
    await writer.tell(HostMethod.PATCH_STATE, [[["passing"], []]])
    slow.read_on()
    await until(lambda: reader.peer.channel.backlog is None)
    await slow.round_trip()
    told = [change for frame in changes(slow, MirrorSection.STATE) for change in frame]
    assert [change for change in told if change[0] == ["notes"]][-1] == [["notes"], ["own"]]
    assert [change for change in told if change[0] == ["passing"]][-1] == [["passing"], []]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("key", "written", "is_there"),
    [
        ("guarded", 2, 3),
        pytest.param("large", [[]] * 262_000, None, id="more than a module may leave"),
    ],
)
async def test_a_refused_writer_that_reads_late_gets_the_true_value(
    key: str, written: Any, is_there: Any, hosted: Hosted
) -> None:
    state = hosted.coordinator.session_state
    state["guarded"] = 1
    hosted.coordinator.tell_state_changes()
    _, writer = await hosted.start("tool", "tool-writer")
    module, slow = await hosted.start("tool", "tool-slow")
    slow.stop_reading()
    await _fill(hosted, writer, module)
    slow.notify(HostMethod.PATCH_STATE, [[[key], [written]]])
    await until(lambda: module.denials)
    state["guarded"] = 3
    hosted.coordinator.tell_state_changes()
    await writer.round_trip()
    assert module.peer.channel.backlog is not None
    slow.read_on()
    await until(lambda: module.peer.channel.backlog is None)
    await slow.round_trip()
    told = [change for frame in changes(slow, MirrorSection.STATE) for change in frame if change[0] == [key]]
    assert told[-1] == [[key], [] if is_there is None else [is_there]]
    assert [denial.target for denial in module.denials] == [f"session_state['{key}']"]
    assert not module.reports


async def test_a_change_of_state_says_how_many_of_the_workers_own_came_before(hosted: Hosted) -> None:
    _, writer = await hosted.start("tool", "tool-writer")
    _, reader = await hosted.start("tool", "tool-reader")
    for number in range(3):
        reader.notify(HostMethod.PATCH_STATE, [[["mine"], [number]]])
    await reader.round_trip()
    await writer.tell(HostMethod.PATCH_STATE, [[["theirs"], [1]]])
    await reader.round_trip()
    (told,) = [frame for frame in reader.heard(Kind.MIRROR) if frame.method == MirrorSection.STATE]
    assert told.target == 3
    for number in range(61):
        reader.notify(HostMethod.PATCH_STATE, [[["mine"], [number]]])
    await reader.round_trip()
    told = [frame for frame in reader.heard(Kind.MIRROR) if frame.method == MirrorSection.STATE][-1]
    assert (told.target, reader.codec.decode(told.body)) == (64, [])
