"""What one module does to the shared state, as the others come to see it: in order, and never their own doing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.session.state import mirrors
from paddock_sdk.protocol import HandleEntry, Kind
from paddock_sdk.protocol.body import unpack_prefix
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted, changes, tool


def _named(worker: ScriptedWorker, section: MirrorSection) -> list[tuple[str, Any]]:
    """Return the named values of a section that a worker has heard, and take them."""
    named = []
    for frame in changes(worker, section):
        name, rest = unpack_prefix(frame.body)
        named.append((name, worker.codec.decode(rest, frame.handles)))
    return named


async def test_a_new_worker_is_brought_up_to_date_before_it_is_mounted(hosted: Hosted) -> None:
    hosted.coordinator.register_capability("theirs", {"number": 1})
    hosted.coordinator.session_state["goal"] = ["one"]
    hosted.coordinator.tell_state_changes()
    hosted.coordinator.hooks.register("tool:pre", lambda event, data: None)
    await hosted.start("tool", "tool-first", tool("first", colour="red"))
    seen: list[Any] = []

    async def look(worker: ScriptedWorker) -> None:
        assert worker.heard(Kind.REQUEST) == []
        seen.extend(frame.method for frame in worker.heard(Kind.MIRROR))
        (session,) = changes(worker, MirrorSection.SESSION)
        stands_for = worker.description(session.pop("session"))
        assert (stands_for.type_name, stands_for.members, stands_for.attributes) == ("AmplifierSession", (), {})
        assert session == {
            "session_id": "the-session",
            "parent_id": None,
            "config": {"session": {}},
            "is_resumed": False,
            "initialized": False,
            "has_approval": False,
            "has_display": False,
        }
        assert changes(worker, MirrorSection.STATE) == [[[["goal"], [["one"]]]]]
        assert changes(worker, MirrorSection.HEARD) == [["tool:pre", True]]
        assert changes(worker, MirrorSection.CANCELLATION) == [["none", {}]]
        assert _named(worker, MirrorSection.CAPABILITY) == [("theirs", {"number": 1})]
        ((point, name, entry),) = changes(worker, MirrorSection.MOUNTED)
        assert (point, name) == ("tools", "first")
        assert worker.description(entry).attributes == {"name": "first", "colour": "red"}

    await hosted.start("tool", "tool-second", look)
    assert len(seen) == 6


async def test_a_change_is_written_before_any_later_frame(hosted: Hosted) -> None:
    """The answer to whoever causes it, the request of a third: both come after what the change itself says."""
    _, first = await hosted.start("tool", "tool-first", tool("first"))
    _, second = await hosted.start("orchestrator", "loop-second")
    second.frames.clear()
    first.request(0, HostMethod.REGISTER_CAPABILITY, "value", head="offered")
    (tools_first,) = [hosted.coordinator.get("tools", "first")]
    call = hosted.marshaller.handle_of(tools_first)
    assert call is not None
    await first.take(Kind.RESPONSE)
    await second.round_trip()
    assert _named(second, MirrorSection.CAPABILITY) == [("offered", "value")]

    first.request(0, HostMethod.REGISTER_CAPABILITY, 1, head="ordered")
    first.notify(HostMethod.SET_ATTRIBUTE, 2, head="ordered")
    await first.tell(HostMethod.PATCH_STATE, [[["ordered"], [3]]])
    await second.round_trip()
    order = [frame.method for frame in second.heard(Kind.MIRROR)]
    assert order == [MirrorSection.CAPABILITY, MirrorSection.ATTRIBUTE, MirrorSection.STATE]


async def test_a_newcomer_wakes_the_others_with_their_next_frame_or_soon(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = await hosted.start("tool", "tool-first", tool("first"))
    first.frames.clear()
    with monkeypatch.context() as patched:
        patched.setattr(mirrors, "_QUIET", 60.0)
        await hosted.start("tool", "tool-second", tool("second"))
        assert first.heard(Kind.MIRROR) == []
        await first.round_trip()
    assert [frame.method for frame in first.heard(Kind.MIRROR)] == [MirrorSection.MOUNTED]
    await hosted.start("tool", "tool-third", tool("third"))
    assert (await first.take(Kind.MIRROR)).method == MirrorSection.MOUNTED  # which asks for nothing meanwhile


async def test_mounts_without_an_end_are_sent_all_the_same(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = await hosted.start("tool", "tool-first", tool("first"))
    first.frames.clear()
    monkeypatch.setattr(mirrors, "_QUIET", 60.0)
    monkeypatch.setattr(mirrors, "_LATEST", 0.0)
    await hosted.start("tool", "tool-second", tool("second"))
    assert (await first.take(Kind.MIRROR)).method == MirrorSection.MOUNTED


@pytest.mark.parametrize(
    ("cause", "section"),
    [
        ("mount", MirrorSection.MOUNTED),
        ("unmount", MirrorSection.UNMOUNTED),
        ("capability", MirrorSection.CAPABILITY),
        ("attribute", MirrorSection.ATTRIBUTE),
        ("no attribute", MirrorSection.ATTRIBUTE_DELETED),
        ("state", MirrorSection.STATE),
        ("contributor", MirrorSection.CONTRIBUTOR),
    ],
)
async def test_a_module_never_hears_of_its_own_changes_and_all_others_do(
    cause: str, section: MirrorSection, hosted: Hosted
) -> None:
    _, doer = await hosted.start("tool", "tool-doer", tool("old"))
    await doer.tell(HostMethod.SET_ATTRIBUTE, 1, head="known")
    _, onlooker = await hosted.start("tool", "tool-onlooker")
    doer.frames.clear()
    onlooker.frames.clear()
    match cause:
        case "mount":
            await doer.ask(0, HostMethod.MOUNT, ["tools", "new", doer.own(9, {"execute": ASYNC})])
        case "unmount":
            await doer.ask(0, HostMethod.UNMOUNT, ["tools", "old"])
        case "capability":
            await doer.ask(0, HostMethod.REGISTER_CAPABILITY, 1, head="offered")
        case "attribute":
            doer.notify(HostMethod.SET_ATTRIBUTE, 1, head="attached")
        case "no attribute":
            doer.notify(HostMethod.DELETE_ATTRIBUTE, ["known"])
        case "state":
            doer.notify(HostMethod.PATCH_STATE, [[["key"], [1]]])
        case "contributor":
            await doer.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", "doer", doer.function(9)])
    await doer.round_trip()
    await onlooker.round_trip()
    assert [frame.method for frame in onlooker.heard(Kind.MIRROR)] == [section]
    assert doer.heard(Kind.MIRROR) == []


async def test_contributors_that_are_not_registered_again_are_gone(hosted: Hosted) -> None:
    async def contribute(worker: ScriptedWorker, *names: str) -> None:
        for number, name in enumerate(names):
            await worker.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", name, worker.function(9 + number)])

    async def contributes_both(worker: ScriptedWorker) -> None:
        await contribute(worker, "first", "second")

    async def contributes_the_second(worker: ScriptedWorker) -> None:
        await contribute(worker, "second")

    _, onlooker = await hosted.start("tool", "tool-onlooker")
    module, _ = await hosted.start("tool", "tool-x", contributes_both)
    await onlooker.round_trip()
    told = [change[1::2] for change in changes(onlooker, MirrorSection.CONTRIBUTOR)]
    await hosted.die(module)
    asked = asyncio.ensure_future(hosted.coordinator.collect_contributions("colours"))
    again = await hosted.mount_next(module, contributes_the_second)
    again.respond((await again.request_from_host()).id, "red")
    assert await asked == ["red"]
    await onlooker.round_trip()
    number_of: dict[str, int] = dict(told)
    withdrawn = [["colours", number_of["first"]]]
    assert changes(onlooker, MirrorSection.CONTRIBUTOR_WITHDRAWN) == withdrawn
    assert changes(again, MirrorSection.CONTRIBUTOR_WITHDRAWN) == withdrawn, "it was told of it when it came"
    assert changes(onlooker, MirrorSection.CONTRIBUTOR) == []
    await contribute(again, "second", "third")
    late: list[Any] = []

    async def look(worker: ScriptedWorker) -> None:
        late.extend(change[1] for change in changes(worker, MirrorSection.CONTRIBUTOR))

    await hosted.start("tool", "tool-late", look)
    assert late == ["second", "second", "third"]
    assert [known["name"] for known in hosted.coordinator.channels["colours"]] == late


async def test_a_registration_updates_every_mirror(hosted: Hosted) -> None:
    """Also the registrant: its own emits have to come to the host from now on, and that before its call returns."""
    _, hook = await hosted.start("hook", "hooks-one")
    _, other = await hosted.start("tool", "tool-other")
    registration = hook.request(0, HostMethod.REGISTER, ["tool:pre", 0, "mine", hook.function(5)])
    heard = await hook.take(Kind.MIRROR, Kind.RESPONSE)
    while heard.kind == Kind.MIRROR and heard.method != MirrorSection.HEARD:
        heard = await hook.take(Kind.MIRROR, Kind.RESPONSE)
    assert heard.kind == Kind.MIRROR and hook.value(heard) == ["tool:pre", True]
    number = await hook.answer(registration)
    await hook.ask(0, HostMethod.UNREGISTER, [number])
    await other.round_trip()
    assert changes(other, MirrorSection.HEARD) == [["tool:pre", True], ["tool:pre", False]]


async def test_changes_of_state_are_patches_and_a_late_worker_gets_the_whole(hosted: Hosted) -> None:
    _, writer = await hosted.start("tool", "tool-writer")
    _, reader = await hosted.start("tool", "tool-reader")
    reader.frames.clear()
    patches: list[Any] = [
        [["plan"], [{"turns": 0, "notes": []}]],
        [["plan", "turns"], [1]],
        [["plan", "notes"], []],
        [["other"], ["x"]],
        [["other"], []],
    ]
    for patch in patches:
        writer.notify(HostMethod.PATCH_STATE, [patch])
    await writer.round_trip()
    await reader.round_trip()
    assert changes(reader, MirrorSection.STATE) == [[patch] for patch in patches]
    assert hosted.coordinator.session_state == {"plan": {"turns": 1}}
    late: list[Any] = []

    async def look(worker: ScriptedWorker) -> None:
        late.extend(changes(worker, MirrorSection.STATE))

    await hosted.start("tool", "tool-late", look)
    assert late == [[[["plan"], [{"turns": 1}]]]]


async def test_a_replaced_state_dict_is_the_one_modules_write_to(hosted: Hosted) -> None:
    _, writer = await hosted.start("tool", "tool-writer")
    hosted.coordinator.session_state = {"mine": 1}
    await writer.tell(HostMethod.PATCH_STATE, [[["theirs"], [2]]])
    assert hosted.coordinator.session_state == {"mine": 1, "theirs": 2}


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param([[], [1]], id="no path"),
        pytest.param([["key"], [1, 2]], id="two values"),
        pytest.param(["key", [1]], id="a path that is text"),
        pytest.param([[["key"]], [1]], id="a key that cannot be one"),
        pytest.param([[{"a": 1}], []], id="another such key"),
        pytest.param([["a", ["key"]], [1]], id="such a key further in"),
        pytest.param({"key": 1}, id="no change at all"),
    ],
)
async def test_a_patch_that_is_none_is_noted_and_leaves_the_state_alone(patch: Any, hosted: Hosted) -> None:
    hosted.coordinator.session_state["a"] = {"b": 1}
    module, writer = await hosted.start("tool", "tool-writer")
    await writer.tell(HostMethod.PATCH_STATE, [patch])
    assert [denial.reason for denial in module.denials] == ["malformed change of state"]
    assert module.peer.state_changes_taken == 1  # or the worker would remember it for good
    assert hosted.coordinator.session_state == {"a": {"b": 1}}


async def test_attributes_carry_objects_that_others_can_call(hosted: Hosted) -> None:
    _, owner = await hosted.start("tool", "tool-owner")
    _, reader = await hosted.start("tool", "tool-reader")
    reader.frames.clear()
    await owner.tell(HostMethod.SET_ATTRIBUTE, {"store": owner.own(9, {"read": ASYNC})}, head="shared")
    await reader.round_trip()
    ((name, value),) = _named(reader, MirrorSection.ATTRIBUTE)
    assert name == "shared"
    entry = value["store"]
    assert isinstance(entry, HandleEntry)
    reader.call_object(entry.id)
    assert (await owner.request_from_host()).target == 9
    on_the_host: Any = hosted.coordinator
    assert hasattr(on_the_host.shared["store"], "read")
    await owner.tell(HostMethod.DELETE_ATTRIBUTE, ["shared"])
    assert not hasattr(on_the_host, "shared")


@pytest.mark.parametrize("is_capability", [False, True])
async def test_an_unreadable_offer_ends_the_worker_that_sent_it(is_capability: bool, hosted: Hosted) -> None:
    """Told on unread, it would be every later module's trouble instead."""
    module, owner = await hosted.start("tool", "tool-owner")
    body = owner.codec.encode("broken")[0] + b"\xc1"
    if is_capability:
        owner.write(owner.connection.send_request(0, HostMethod.REGISTER_CAPABILITY, body)[1])
    else:
        owner.write(owner.connection.send_notify(0, HostMethod.SET_ATTRIBUTE, body))
    await owner.cut_off()
    assert [report.reason.value for report in module.reports] == ["protocol"]
    assert hosted.coordinator.get_capability("broken") is None
    assert getattr(hosted.coordinator, "broken", "absent") == "absent"
    _, later = await hosted.start("tool", "tool-later")
    assert await later.ask(0, HostMethod.LIST_HANDLERS, [None]) == {}


async def test_the_running_tools_and_the_wish_to_stop_are_told_to_everyone(hosted: Hosted) -> None:
    _, loop = await hosted.start("orchestrator", "loop-one")
    _, other = await hosted.start("tool", "tool-other")
    other.frames.clear()
    loop.notify(HostMethod.TOOL_STARTED, ["call_b", "bash"])
    loop.notify(HostMethod.TOOL_STARTED, ["call_a", "read"])
    loop.notify(HostMethod.TOOL_STARTED, ["call_c", "grep"])
    loop.notify(HostMethod.TOOL_COMPLETED, ["call_c"])
    assert await loop.ask(0, HostMethod.REQUEST_CANCEL, ["graceful"]) is True
    assert await loop.ask(0, HostMethod.REQUEST_CANCEL, ["graceful"]) is False
    await other.round_trip()
    assert changes(other, MirrorSection.CANCELLATION) == [["graceful", {"call_b": "bash", "call_a": "read"}]]


async def test_only_who_said_that_a_tool_runs_says_that_it_has_ended(hosted: Hosted) -> None:
    _, loop = await hosted.start("orchestrator", "loop-one")
    _, other = await hosted.start("tool", "tool-other")
    await loop.tell(HostMethod.TOOL_STARTED, ["call_a", "read"])
    await other.tell(HostMethod.TOOL_COMPLETED, ["call_a"])
    assert hosted.coordinator.cancellation.running_tools == {"call_a"}
    await loop.tell(HostMethod.TOOL_COMPLETED, ["call_a"])
    assert hosted.coordinator.cancellation.running_tools == set()


async def test_a_tools_new_description_reaches_host_and_workers(hosted: Hosted) -> None:
    _, owner = await hosted.start("tool", "tool-owner", tool("changing", description="old"))
    _, reader = await hosted.start("orchestrator", "loop-reader")
    ((_, _, entry),) = changes(reader, MirrorSection.MOUNTED)
    on_the_host: Any = hosted.coordinator.get("tools", "changing")
    assert on_the_host.description == "old"
    description = owner.describe({"execute": ASYNC}, name="changing", description="new")
    await owner.tell(HostMethod.DESCRIBE, [5, description])
    await reader.round_trip()
    (told,) = (frame for frame in reader.heard(Kind.MIRROR) if frame.target == entry.id)
    assert (told.method, reader.value(told)) == (MirrorSection.DATA, [{"description": "new"}, []])
    assert on_the_host.description == "new"

    async def look(worker: ScriptedWorker) -> None:
        ((_, _, fresh),) = changes(worker, MirrorSection.MOUNTED)
        assert worker.description(fresh).attributes["description"] == "new"

    await hosted.start("tool", "tool-late", look)


async def test_only_a_changed_object_is_described_again(hosted: Hosted) -> None:
    _, owner = await hosted.start("tool", "tool-owner", tool("changing", description="old"))
    _, reader = await hosted.start("orchestrator", "loop-reader")
    ((_, _, entry),) = changes(reader, MirrorSection.MOUNTED)
    other = owner.describe({"execute": ASYNC, "look": ASYNC}, name="changing")
    for description in (other, other, owner.describe({"execute": ASYNC, "look": ASYNC}, colour="red")):
        owner.notify(HostMethod.DESCRIBE, [5, description])
    await owner.round_trip()
    await reader.round_trip()
    whole, data = (frame for frame in reader.heard(Kind.MIRROR) if frame.target == entry.id)
    assert (whole.method, bytes(whole.body)) == (MirrorSection.DESCRIPTION, other)
    assert (data.method, reader.value(data)) == (MirrorSection.DATA, [{"colour": "red"}, ["name"]])


@pytest.mark.parametrize("description", [b"\xc0", b"\xc1", bytes(300 * 1024)])
async def test_a_new_description_that_is_none_ends_the_worker(description: bytes, hosted: Hosted) -> None:
    module, owner = await hosted.start("tool", "tool-owner", tool("changing"))
    owner.notify(HostMethod.DESCRIBE, [5, description])
    await owner.cut_off()
    assert [report.reason.value for report in module.reports] == ["protocol"]


async def test_a_description_of_an_object_without_holders_is_ignored(hosted: Hosted) -> None:
    _, owner = await hosted.start("tool", "tool-owner")
    await owner.tell(HostMethod.DESCRIBE, [4711, owner.describe({})])
