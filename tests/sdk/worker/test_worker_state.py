"""The session as a module sees it: what it does is told to the host, what others did is there to be read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.contract.models import HookResult
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.body import unpack_prefix
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC, SYNC

from .conftest import Rig
from .scripted_host import ScriptedHost


def _told(host: ScriptedHost, count: int) -> list[tuple[HostMethod, Any]]:
    """Return the next frames, all of which have to be requests or notifications to the host; requests are granted."""
    told = []
    for _ in range(count):
        frame = host.take(Kind.REQUEST, Kind.NOTIFY)
        assert frame.target == 0
        method = HostMethod(frame.method)
        if method in (HostMethod.REGISTER_CAPABILITY, HostMethod.SET_ATTRIBUTE):
            name, rest = unpack_prefix(frame.body)
            told.append((method, (name, host.codec.decode(rest, frame.handles))))
        else:
            told.append((method, host.value(frame)))
        if frame.kind == Kind.REQUEST:
            host.respond(frame.id)
    return told


async def _telling(rig: Rig, count: int, act: Any) -> list[tuple[HostMethod, Any]]:
    """Return what the worker tells the host while `act` runs."""
    async with rig.playing(lambda host: _told(host, count)) as played:
        act()
    return played.result()


async def _mirrored(rig: Rig, *changes: tuple[MirrorSection, Any] | tuple[MirrorSection, Any, str]) -> None:
    """Let the host tell the worker of changes; nothing may be reported back."""

    def script(host: ScriptedHost) -> None:
        for section, value, *head in changes:
            host.mirror(section, value, head=head[0] if head else None)
        host.is_silent()
        assert {frame.kind for frame in host.frames} <= {Kind.RELEASE}, "what is no longer used is let go, and no more"
        host.frames.clear()

    await rig.play(script)


# -- what the module does ----------------------------------------------------------------------


async def test_each_act_is_in_force_at_the_host_when_it_returns(rig: Rig) -> None:
    class Tool:
        name = "tool"

        async def execute(self, input: Any) -> None: ...

    coordinator, tool = rig.coordinator, Tool()

    def act() -> None:
        coordinator.mount("tools", tool)
        coordinator.mount_points["tools"]["alias"] = tool
        coordinator.register_capability("offered", {"number": 1})
        coordinator.register_contributor("colours", "tool", lambda: "red")
        coordinator.register_cleanup(lambda: None)
        coordinator.register_cleanup("no function")
        del coordinator.mount_points["tools"]["alias"]
        coordinator.attached = [1]  # type: ignore[attr-defined]
        del coordinator.attached  # type: ignore[attr-defined]

    told = await _telling(rig, 8, act)
    assert [method for method, _ in told] == [
        HostMethod.MOUNT,
        HostMethod.MOUNT,
        HostMethod.REGISTER_CAPABILITY,
        HostMethod.REGISTER_CONTRIBUTOR,
        HostMethod.REGISTER_CLEANUP,
        HostMethod.UNMOUNT,
        HostMethod.SET_ATTRIBUTE,
        HostMethod.DELETE_ATTRIBUTE,
    ]
    assert told[0][1][:2] == ["tools", "tool"] and told[1][1][:2] == ["tools", "alias"]
    assert told[0][1][2].id == told[1][1][2].id
    assert told[2][1] == ("offered", {"number": 1})
    assert told[6][1] == ("attached", [1])
    assert await rig.play(lambda host: host.is_silent())


async def test_a_registration_returns_when_the_host_has_committed_it(rig: Rig) -> None:
    async def handler(event: str, data: Any) -> None: ...

    def script(host: ScriptedHost) -> list[Any]:
        register = host.request_from_worker(HostMethod.REGISTER)
        host.mirror(MirrorSection.HEARD, ["tool:pre", True])
        host.respond(register.id, 12)
        return [host.value(register)[:3], host.grant(HostMethod.UNREGISTER)]

    async with rig.playing(script) as played:
        unregister = rig.coordinator.hooks.register("tool:pre", handler, 5, "mine")
        assert rig.coordinator.hooks.has_handlers("tool:pre")
        unregister()
    assert played.result() == [["tool:pre", 5, "mine"], [12]]


async def test_a_refused_registration_raises(rig: Rig) -> None:
    def refuse(host: ScriptedHost) -> None:
        host.fail(host.request_from_worker(HostMethod.REGISTER).id, RefusedError("not for tools"))

    async with rig.playing(refuse):
        with pytest.raises(PermissionError, match="not for tools"):
            rig.coordinator.hooks.register("tool:pre", lambda event, data: None)


async def test_an_event_without_handlers_costs_no_round_trip(rig: Rig) -> None:
    data = {"list": (1, 2), "nested": {"a": 1}}
    result = await rig.coordinator.hooks.emit("news", data)
    assert result.action == "continue"
    assert result.data == {"list": [1, 2], "nested": {"a": 1}}
    assert result.data is not data and result.data["nested"] is not data["nested"]
    assert await rig.coordinator.hooks.emit_and_collect("news", data) == []
    with pytest.raises(RuntimeError, match="JSON"):
        await rig.coordinator.hooks.emit("news", {"number": float("nan")})
    assert await rig.play(lambda host: host.is_silent())


async def test_an_event_that_is_heard_is_the_hosts_to_judge(rig: Rig) -> None:
    await _mirrored(rig, (MirrorSection.HEARD, ["news", True]))

    def script(host: ScriptedHost) -> list[Any]:
        return [
            host.grant(HostMethod.EMIT, HookResult(action="deny", reason="no")),
            host.grant(HostMethod.EMIT_AND_COLLECT, [{"number": 1}]),
        ]

    async with rig.playing(script) as played:
        assert (await rig.coordinator.hooks.emit("news", {"list": (1, 2)})).reason == "no"
        assert await rig.coordinator.hooks.emit_and_collect("news", {}, 2) == [{"number": 1}]
    assert played.result() == [["news", {"list": [1, 2]}], ["news", {}, 2.0]]
    await _mirrored(rig, (MirrorSection.HEARD, ["news", False]))
    assert (await rig.coordinator.hooks.emit("news", {})).action == "continue"


async def test_what_the_host_decides_is_asked_of_it(rig: Rig) -> None:
    coordinator, token = rig.coordinator, rig.coordinator.cancellation
    approval: Any = coordinator.approval_system
    display: Any = coordinator.display_system
    script = [
        (HostMethod.COLLECT_CONTRIBUTIONS, ["red"]),
        (HostMethod.PROCESS_HOOK_RESULT, HookResult()),
        (HostMethod.REQUEST_APPROVAL, "Allow"),
        (HostMethod.LIST_HANDLERS, {"news": ["mine"]}),
        (HostMethod.SET_DEFAULT_FIELDS, None),
        (HostMethod.UNREGISTER_NAME, None),
        (HostMethod.REQUEST_CANCEL, True),
        (HostMethod.ON_CANCEL, None),
        (HostMethod.TRIGGER_CANCEL_CALLBACKS, None),
    ]

    async with rig.playing(lambda host: [host.grant(method, answer) for method, answer in script]) as played:
        assert await coordinator.collect_contributions("colours") == ["red"]
        told = HookResult(user_message="look")
        assert await coordinator.process_hook_result(told, "news", "mine") == HookResult()
        assert await approval.request_approval("Go on?", ("Allow", "Deny"), 5, "deny") == "Allow"
        assert coordinator.hooks.list_handlers() == {"news": ["mine"]}
        coordinator.hooks.set_default_fields(turn=1)
        coordinator.hooks.unregister("mine")
        assert token.request_graceful() is True
        token.on_cancel(lambda: None)
        await token.trigger_callbacks()
    asked = played.result()
    assert asked[0] == ["colours"]
    assert asked[2] == ["Go on?", ["Allow", "Deny"], 5.0, "deny"]
    assert asked[4] == [{"turn": 1}]
    assert asked[6] == ["graceful"]

    told = await _telling(
        rig,
        4,
        lambda: (
            token.register_tool_start("call_1", "bash"),
            token.register_tool_complete("call_1"),
            display.show_message("look", "warning", "me"),
            coordinator.reset_turn(),
        ),
    )
    assert told == [
        (HostMethod.TOOL_STARTED, ["call_1", "bash"]),
        (HostMethod.TOOL_COMPLETED, ["call_1"]),
        (HostMethod.SHOW_MESSAGE, ["look", "warning", "me"]),
        (HostMethod.RESET_TURN, []),
    ]
    assert token.running_tools == set()
    await coordinator.cleanup()
    assert await rig.play(lambda host: host.is_silent())


async def test_a_dict_is_no_hook_result(rig: Rig) -> None:
    result: Any = {"action": "deny"}
    with pytest.raises(AttributeError):
        await rig.coordinator.process_hook_result(result, "news", "mine")


# -- what the module writes in place -----------------------------------------------------------


async def test_state_written_in_place_precedes_the_next_frame(rig: Rig) -> None:
    state = rig.coordinator.session_state
    state["goal"] = {"turns": 0, "notes": ["a"]}
    told = await _telling(rig, 2, lambda: rig.driver.notify(HostMethod.RESET_TURN, []))
    assert told[0] == (HostMethod.PATCH_STATE, [[["goal"], [{"turns": 0, "notes": ["a"]}]]])
    state["goal"]["turns"] = 1
    state["goal"]["notes"].append("b")
    state["object"] = object()
    told = await _telling(rig, 4, lambda: rig.driver.call_sync(0, HostMethod.UNREGISTER, [0]))
    assert told[2][0] == HostMethod.SET_ATTRIBUTE and told[2][1][0] == "state:object"
    assert [value for method, value in told if method == HostMethod.PATCH_STATE] == [
        [[["goal", "turns"], [1]]],
        [[["goal", "notes"], [["a", "b"]]]],
    ]
    del state["goal"], state["object"]
    told = await _telling(rig, 3, lambda: rig.driver.notify(HostMethod.RESET_TURN, []))
    assert told[:2] == [(HostMethod.PATCH_STATE, [[[key], []]]) for key in ("goal", "object")]
    assert await rig.play(lambda host: host.is_silent()), "nothing is told twice"


async def test_an_attribute_changed_in_place_is_sent_again(rig: Rig) -> None:
    coordinator: Any = rig.coordinator

    def act() -> None:
        coordinator.notes = ["first"]
        coordinator.lock = {10**2000}  # no number that long can be sent
        coordinator.notes.append("second")
        rig.driver.notify(HostMethod.RESET_TURN, [])

    told = await _telling(rig, 3, act)
    assert told == [
        (HostMethod.SET_ATTRIBUTE, ("notes", ["first"])),
        (HostMethod.SET_ATTRIBUTE, ("notes", ["first", "second"])),
        (HostMethod.RESET_TURN, []),
    ]
    assert coordinator.lock == {10**2000}


async def test_a_change_too_large_to_be_told_fails_no_other_call(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.driver.connection.send_limit = 2000
    rig.coordinator.session_state["large"] = "x" * 3000
    rig.coordinator.session_state["small"] = "y"

    async with rig.playing(lambda host: _told(host, 2)) as played:
        await rig.driver.call(0, HostMethod.COLLECT_CONTRIBUTIONS, ["colours"])
    assert played.result() == [
        (HostMethod.PATCH_STATE, [[["small"], ["y"]]]),
        (HostMethod.COLLECT_CONTRIBUTIONS, ["colours"]),
    ]
    assert "stays in this module" in caplog.text


# -- what others did ---------------------------------------------------------------------------


async def test_the_hosts_changes_are_there_and_none_is_reported_back(rig: Rig) -> None:
    coordinator: Any = rig.coordinator
    config = coordinator.config
    host = rig.host
    await _mirrored(
        rig,
        (MirrorSection.SESSION, {"session_id": "s", "parent_id": "p", "config": {"session": {"raw": True}}}),
        (MirrorSection.HEARD, ["tool:pre", True]),
        (MirrorSection.MOUNTED, ["tools", "echo", host.own(9, {"execute": ASYNC}, name="echo")]),
        (MirrorSection.MOUNTED, ["context", None, host.own(10, {"add_message": ASYNC})]),
        (MirrorSection.CAPABILITY, {"number": 1}, "offered"),
        (MirrorSection.ATTRIBUTE, ["first"], "notes"),
        (MirrorSection.STATE, [[["goal"], [{"turns": 1}]], [["goal", "turns"], [2]], [["gone"], []]]),
        (MirrorSection.CONTRIBUTOR, ["colours", "other", host.function(11, SYNC), 1]),
        (MirrorSection.CONTRIBUTOR, ["colours", "another", host.function(12, SYNC), 2]),
        (MirrorSection.CANCELLATION, ["graceful", {"call_1": "bash"}]),
    )
    assert (coordinator.session_id, coordinator.parent_id) == ("s", "p")
    assert coordinator.config == {"session": {"raw": True}} and coordinator.config is config
    assert coordinator.hooks.has_handlers("tool:pre")
    assert coordinator.get("tools", "echo").name == "echo"
    assert hasattr(coordinator.get("context"), "add_message")
    assert coordinator.get_capability("offered") == {"number": 1}
    assert coordinator.notes == ["first"]
    assert coordinator.session_state == {"goal": {"turns": 2}}
    assert [entry["name"] for entry in coordinator.channels["colours"]] == ["other", "another"]
    assert coordinator.cancellation.is_graceful
    assert coordinator.cancellation.running_tools == {"call_1"}
    assert coordinator.cancellation.running_tool_names == ["bash"]
    await _mirrored(
        rig,
        (MirrorSection.UNMOUNTED, ["tools", "echo"]),
        (MirrorSection.UNMOUNTED, ["context", None]),
        (MirrorSection.ATTRIBUTE_DELETED, ["notes"]),
        (MirrorSection.CONTRIBUTOR_WITHDRAWN, ["colours", 1]),
        (MirrorSection.CONTRIBUTOR_WITHDRAWN, ["colours", 1]),
        (MirrorSection.STATE, [[["goal"], []]]),
        (MirrorSection.CANCELLATION, ["none", {}]),
        (MirrorSection.CANCELLATION, ["immediate", {}]),
    )
    assert coordinator.get("tools") == {} and coordinator.get("context") is None
    assert not hasattr(coordinator, "notes")
    assert [entry["name"] for entry in coordinator.channels["colours"]] == ["another"]
    assert coordinator.session_state == {}
    assert coordinator.cancellation.is_immediate


async def test_what_others_wrote_is_not_told_back_and_changing_it_is(rig: Rig) -> None:
    await _mirrored(
        rig,
        (MirrorSection.STATE, [[["goal"], [{"turns": 1}]]]),
        (MirrorSection.ATTRIBUTE, ["first"], "notes"),
    )
    coordinator: Any = rig.coordinator
    coordinator.session_state["goal"]["turns"] = 2
    coordinator.notes.append("second")
    told = await _telling(rig, 3, lambda: rig.driver.notify(HostMethod.RESET_TURN, []))
    assert told == [
        (HostMethod.PATCH_STATE, [[["goal", "turns"], [2]]]),
        (HostMethod.SET_ATTRIBUTE, ("notes", ["first", "second"])),
        (HostMethod.RESET_TURN, []),
    ]


@pytest.mark.parametrize("section", [MirrorSection.CAPABILITY, MirrorSection.ATTRIBUTE])
@pytest.mark.parametrize(
    "rest", [b"\xc1", b"", b"\x91" * 100 + b"\xc0", b"\xd6\x01\0\0\0\x07", b"\xc7\x03\x02\x92\xa1x"]
)
async def test_unreadable_offers_of_another_module_are_left_out(section: MirrorSection, rest: bytes, rig: Rig) -> None:
    """The host does not look inside, so what a hostile module offers reaches every other as it is."""

    def script(host: ScriptedHost) -> None:
        host.mirror(section, "good", head="offered")
        body = host.codec.encode("offered")[0] + rest
        host.write(host.connection.send_mirror(section, body))
        host.mirror(MirrorSection.HEARD, ["after", True])
        assert host.is_silent()

    await rig.play(script)
    assert rig.coordinator.get_capability("offered") is None
    assert not hasattr(rig.coordinator, "offered")
    assert rig.coordinator.hooks.has_handlers("after")
    assert rig.coordinator.observer is not None

    def in_place(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        host.write(host.connection.send_mirror(section, host.codec.encode("offered")[0] + rest))
        host.respond(request.id, "answered")

    async with rig.playing(in_place):
        assert rig.driver.call_sync(0, HostMethod.UNREGISTER, [0]) == "answered"


async def test_a_turn_polls_the_cancellation_without_asking(rig: Rig) -> None:
    async def turn() -> None:
        while not rig.coordinator.cancellation.is_cancelled:
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(turn())
    await _mirrored(rig, (MirrorSection.CANCELLATION, ["graceful", {}]))
    async with asyncio.timeout(60):
        await turning


# -- changes of state that cross ---------------------------------------------------------------


async def _cross(rig: Rig, taken: int, *theirs: Any) -> Any:
    """Have the host change state after it took in `taken` of two changes by the worker; return what the worker has."""
    state = rig.coordinator.session_state
    for key in ("a", "b"):
        state.setdefault("notes", {})[key] = "own"
        await _telling(rig, 2, lambda: rig.driver.notify(HostMethod.RESET_TURN, []))
    await rig.play(lambda host: host.mirror(MirrorSection.STATE, list(theirs), target=taken))
    await rig.play(lambda host: host.is_silent())
    return state.get("notes")


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        (0, {"a": "own", "b": "own"}),
        (1, {"c": "other", "b": "own"}),
        (2, {"c": "other"}),
        (2**32 - 1, {"a": "own", "b": "own"}),
    ],
)
async def test_what_the_host_had_not_taken_in_is_made_again_on_top(taken: int, left: Any, rig: Rig) -> None:
    assert await _cross(rig, taken, [["notes"], [{"c": "other"}]]) == left


async def test_a_change_beside_ones_own_replaces_no_object(rig: Rig) -> None:
    state = rig.coordinator.session_state
    state["notes"] = {"deep": {}}
    deep = state["notes"]["deep"]
    assert (await _cross(rig, 0, [["other"], [1]]))["deep"] is deep


async def test_what_was_not_sent_yet_is_sent_and_kept_when_others_change_the_key(rig: Rig) -> None:
    state = rig.coordinator.session_state
    await _mirrored(rig, (MirrorSection.STATE, [[["notes"], [{}]]]))
    state["notes"]["own"] = 1

    def script(host: ScriptedHost) -> list[tuple[HostMethod, Any]]:
        host.mirror(MirrorSection.STATE, [[["notes"], [{"other": 2}]]])
        return _told(host, 1)

    assert await rig.play(script) == [(HostMethod.PATCH_STATE, [[["notes", "own"], [1]]])]
    await rig.play(lambda host: host.is_silent())
    assert state["notes"] == {"other": 2, "own": 1}
