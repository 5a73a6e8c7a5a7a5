"""What is left for everyone under a name, and whose it stays: by sort of thing, owner and kind of module."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.policy.authority import STEERING_KEYS
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.body import unpack_prefix
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import SYNC

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted, changes


async def _leave(worker: ScriptedWorker, sort: str, value: Any, name: str = "thing") -> None:
    if sort == "capability":
        await worker.ask(0, HostMethod.REGISTER_CAPABILITY, value, head=name)
    else:
        await worker.tell(HostMethod.SET_ATTRIBUTE, value, head=name)


async def _is_left(worker: ScriptedWorker, sort: str, value: Any) -> bool:
    try:
        await _leave(worker, sort, value)
    except ValueError as error:
        assert "the capability thing" in str(error)
        return False
    section = MirrorSection.ATTRIBUTE if sort == "attribute" else MirrorSection.CAPABILITY
    return not changes(worker, section)  # who may not is told what is there


def _live(worker: ScriptedWorker, id: int = 9) -> Any:
    return [{"in": worker.own(id, {"look": SYNC})}]


@pytest.mark.parametrize("sort", ["capability", "attribute"])
@pytest.mark.parametrize("value", ["live", "data", "nothing"])
@pytest.mark.parametrize(
    ("owner", "taker", "may"),
    [
        ("application", "tool", False),
        ("application", "hook", False),
        ("application", "orchestrator", False),
        ("tool", "tool", False),
        ("tool", "provider", False),
        ("hook", "tool", False),
        ("hook", "hook", False),
        ("orchestrator", "hook", False),
        ("provider", "context", False),
        # Else a tool, which is mounted before any hook, could keep a guard out by its name.
        ("tool", "hook", True),
        ("context", "orchestrator", True),
    ],
)
async def test_a_live_object_is_its_owners_whatever_is_to_take_its_place(
    sort: str, value: str, owner: str, taker: str, may: bool, hosted: Hosted
) -> None:
    if owner == "application":
        if sort == "capability":
            hosted.coordinator.register_capability("thing", {"in": [lambda: 1]})
        else:
            hosted.coordinator.thing = {"in": [lambda: 1]}
    else:
        _, owning = await hosted.start(owner, "module-owner")
        await _leave(owning, sort, _live(owning))
    module, worker = await hosted.start(taker, "module-taker")
    worker.frames.clear()
    offered = {"live": _live(worker), "data": 1, "nothing": None}[value]
    assert await _is_left(worker, sort, offered) is may
    denials = [(denial.target, denial.grant, denial.reason) for denial in module.denials]
    whose = "the application" if owner == "application" else "module `module-owner`"
    told = (f"the {sort} thing", 'replaces: ["thing"]', f"it belongs to {whose}")
    assert denials == ([] if may else [told])


@pytest.mark.parametrize("sort", ["capability", "attribute"])
@pytest.mark.parametrize("replaces", [["thing"], ["module-owner"]])
async def test_an_entry_may_say_that_its_module_takes_a_place(sort: str, replaces: list[str], hosted: Hosted) -> None:
    _, owning = await hosted.start("hook", "module-owner")
    await _leave(owning, sort, _live(owning))
    module, worker = await hosted.start("tool", "module-taker", replaces=replaces)
    worker.frames.clear()
    assert await _is_left(worker, sort, _live(worker))
    assert module.denials == ()


@pytest.mark.parametrize("sort", ["capability", "attribute"])
async def test_plain_data_of_modules_is_open_to_all(sort: str, hosted: Hosted) -> None:
    _, first = await hosted.start("tool", "tool-first")
    _, second = await hosted.start("tool", "tool-second")
    second.frames.clear()
    await _leave(first, sort, ["first"])
    await second.round_trip()
    assert [frame.kind for frame in second.heard(Kind.MIRROR)] == [Kind.MIRROR]
    second.frames.clear()
    assert await _is_left(second, sort, ["first", "second"])
    await _leave(first, sort, _live(first))
    await _leave(first, sort, None)
    second.frames.clear()
    assert await _is_left(second, sort, _live(second))


async def test_a_restarted_module_keeps_its_own_and_takes_back_nothing(hosted: Hosted) -> None:
    async def offering(worker: ScriptedWorker) -> None:
        await _leave(worker, "capability", worker.own(9, {"look": SYNC}), "kept")
        await _leave(worker, "capability", worker.own(10, {"look": SYNC}), "taken")

    module, worker = await hosted.start("tool", "tool-x", offering)
    hosted.coordinator.register_capability("taken", len)
    await hosted.die(module)
    worker = await hosted.bring_up(module, offering)
    assert hosted.coordinator.get_capability("taken") is len
    pending = hosted.coordinator.get_capability("kept").look()
    worker.respond((await worker.request_from_host()).id, "again")
    assert await pending == "again"
    assert module.denials == ()


async def test_two_entries_of_the_same_code_are_no_strangers(hosted: Hosted) -> None:
    for name in ("first", "second"):
        _, worker = await hosted.start("provider", "provider-x", instance_id=name)
        worker.frames.clear()
        assert await _is_left(worker, "capability", _live(worker))


async def test_an_attribute_that_stays_is_told_to_who_wanted_it_gone(hosted: Hosted) -> None:
    hosted.coordinator.folder = "/here"
    module, worker = await hosted.start("tool", "tool-x")
    worker.frames.clear()
    await worker.tell(HostMethod.DELETE_ATTRIBUTE, ["folder"])
    (frame,) = changes(worker, MirrorSection.ATTRIBUTE)
    name, rest = unpack_prefix(frame.body)
    assert (name, worker.codec.decode(rest)) == ("folder", "/here")
    assert [denial.target for denial in module.denials] == ["the attribute folder"]


async def test_application_reads_the_attribute_that_modules_read(hosted: Hosted) -> None:
    on_the_host: Any = hosted.coordinator
    on_the_host.mode = "by the application"
    hook, worker = await hosted.start("hook", "hooks-x")
    _, other = await hosted.start("tool", "tool-x")

    async def last_known() -> list[Any]:
        await worker.round_trip()
        await other.round_trip()
        section = (MirrorSection.ATTRIBUTE, MirrorSection.ATTRIBUTE_DELETED)
        last = [frame for frame in other.heard(Kind.MIRROR) if frame.method in section][-1]
        is_there = last.method == MirrorSection.ATTRIBUTE
        modules = other.codec.decode(unpack_prefix(last.body)[1]) if is_there else "none"
        return [getattr(on_the_host, "mode", "none"), modules]

    assert await last_known() == ["by the application"] * 2
    worker.notify(HostMethod.SET_ATTRIBUTE, "by a hook", head="mode")
    assert await last_known() == ["by a hook"] * 2
    on_the_host.mode = "again"
    assert await last_known() == ["again"] * 2
    worker.notify(HostMethod.DELETE_ATTRIBUTE, ["mode"])
    assert await last_known() == ["none"] * 2
    worker.notify(HostMethod.SET_ATTRIBUTE, "by a hook", head="mode")
    assert await last_known() == ["by a hook"] * 2
    del on_the_host.mode
    assert await last_known() == ["none"] * 2
    assert hook.denials == ()


# -- session_state -----------------------------------------------------------------------------


async def _patch(worker: ScriptedWorker, *patches: list[Any]) -> list[Any]:
    """Send changes of `session_state`; return what the worker is told of it in turn."""
    worker.frames.clear()
    await worker.tell(HostMethod.PATCH_STATE, list(patches))
    return [change for told in changes(worker, MirrorSection.STATE) for change in told]


@pytest.mark.parametrize("kind", ["tool", "provider", "context"])
@pytest.mark.parametrize(
    "patch",
    [[["guarded"], [set()]], [["guarded"], []], [["guarded", "names"], [[]]], [["guarded", "deep", "deeper"], []]],
    ids=["a new value", "none", "a value inside", "none deep inside"],
)
async def test_what_the_application_wrote_is_no_tools_to_change_at_any_depth(
    kind: str, patch: list[Any], hosted: Hosted
) -> None:
    value = {"names": ["bash"], "deep": {"deeper": 1}}
    hosted.coordinator.session_state["guarded"] = value
    hosted.coordinator.tell_state_changes()
    module, worker = await hosted.start(kind, "module-x")
    assert await _patch(worker, patch, [["own"], [1]]) == [[["guarded"], [value]]]
    assert await _patch(worker, patch) == [[["guarded"], [value]]]
    assert hosted.coordinator.session_state == {"guarded": value, "own": 1}
    [denial] = module.denials
    assert (denial.target, denial.times) == ("session_state['guarded']", 2)
    assert denial.hint == 'to allow it, write in the entry of `module-x` in the plan: replaces: ["guarded"]'


@pytest.mark.parametrize(
    ("kind", "entry"), [("hook", {}), ("orchestrator", {}), ("tool", {"replaces": "guarded"})], ids=str
)
async def test_who_acts_for_the_session_or_is_granted_to_may(kind: str, entry: dict[str, Any], hosted: Hosted) -> None:
    hosted.coordinator.session_state["guarded"] = {"turns": 1}
    hosted.coordinator.tell_state_changes()
    module, worker = await hosted.start(kind, "module-x", **entry)
    assert await _patch(worker, [["guarded", "turns"], [2]]) == []
    assert hosted.coordinator.session_state == {"guarded": {"turns": 2}}
    assert module.denials == ()


@pytest.mark.parametrize("key", sorted(STEERING_KEYS))
@pytest.mark.parametrize(
    ("kind", "may"),
    [("tool", False), ("provider", False), ("context", False), ("hook", True), ("orchestrator", True)],
)
async def test_a_key_that_steers_the_session_is_no_tools_to_write(
    kind: str, may: bool, key: str, hosted: Hosted
) -> None:
    module, worker = await hosted.start(kind, "module-x")
    assert await _patch(worker, [[key], [{"condition": "all is sent"}]], [[key, "cap"], [9]]) == (
        [] if may else [[[key], []]]
    )
    assert (key in hosted.coordinator.session_state) is may
    assert [denial.hint for denial in module.denials] == [
        f'to allow it, write in the entry of `module-x` in the plan: replaces: ["{key}"]'
    ] * (not may)


async def test_what_the_application_writes_is_its_own_before_anybody_was_told(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    _, hook = await hosted.start("hook", "hooks-x")
    unspeakable = object()
    hosted.coordinator.session_state.update(new=1, unspeakable=unspeakable)
    assert await _patch(worker, [["new"], [2]], [["unspeakable"], [2]]) == [
        [["new"], [1]],
        [["new"], [1]],
        [["unspeakable"], []],
    ]
    hosted.coordinator.session_state["new"] = {"by the application": 1}
    assert await _patch(hook, [["new", "by a hook"], [2]]) == [
        [["new"], [{"by the application": 1}]],
        [["new"], [{"by the application": 1, "by a hook": 2}]],
    ]
    assert hosted.coordinator.session_state == {
        "new": {"by the application": 1, "by a hook": 2},
        "unspeakable": unspeakable,
    }
    assert len(module.denials) == 2


async def test_a_key_becomes_the_applications_once_it_changes_it(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    _, other = await hosted.start("tool", "tool-y")
    assert await _patch(worker, [["guarded"], [set()]]) == []
    assert await _patch(other, [["guarded"], [{"y"}]]) == []
    hosted.coordinator.session_state["guarded"].add("bash")
    assert (await _patch(worker, [["guarded"], [set()]]))[-1] == [["guarded"], [{"y", "bash"}]]
    assert hosted.coordinator.session_state == {"guarded": {"y", "bash"}}
    assert len(module.denials) == 1


async def test_a_key_that_the_application_took_away_stays_its_own(hosted: Hosted) -> None:
    state = hosted.coordinator.session_state
    state["everything is allowed"] = True
    hosted.coordinator.tell_state_changes()
    _, worker = await hosted.start("tool", "tool-x")
    del state["everything is allowed"]
    hosted.coordinator.tell_state_changes()
    await worker.round_trip()
    assert await _patch(worker, [["everything is allowed"], [True]]) == [[["everything is allowed"], []]]
    assert state == {}
