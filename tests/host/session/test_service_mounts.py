"""Mounting, and reaching for what is mounted: places have owners, and calling takes a right."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.body import unpack_prefix
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted, changes, mounts, tool

# -- mounts ------------------------------------------------------------------------------------


async def test_a_mounted_object_is_at_its_place_and_called_there(hosted: Hosted) -> None:
    _, worker = await hosted.start("tool", "tool-x", tool("echo"))
    pending = asyncio.ensure_future(hosted.coordinator.get("tools", "echo").execute({"text": "hi"}))
    request = await worker.request_from_host()
    assert worker.value(request) == [[{"text": "hi"}], {}]
    worker.respond(request.id, "hi")
    assert await pending == "hi"
    await worker.ask(0, HostMethod.UNMOUNT, ["tools", "echo"])
    assert hosted.coordinator.get("tools", "echo") is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object"}, ""),
        ("none", "is text, and has to be an object"),
        ({"minimum": float("inf")}, "is no JSON"),
        ({"const": b"x"}, "is no JSON"),
    ],
    ids=["an object", "text", "no number of JSON", "bytes"],
)
async def test_a_tool_is_mounted_with_an_object_as_its_schema_alone(schema: object, said: str, hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    mounting = [("one", {"type": "object"}, 5), ("two", schema, 6)]
    for name, about, number in mounting:
        mounted = worker.own(number, {"execute": ASYNC}, name=name, input_schema=about)
        await worker.ask(0, HostMethod.MOUNT, ["tools", None, mounted])
    assert [*hosted.coordinator.get("tools")] == (["one"] if said else ["one", "two"])
    assert [denial.target for denial in module.denials] == (["tools:two"] if said else [])
    assert all(said in denial.reason for denial in module.denials)
    assert await worker.ask(0, HostMethod.UNMOUNT, ["tools", "two"]) is (not said)


async def test_a_mounted_tool_keeps_its_schema_where_the_new_one_is_none(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    good, members = {"type": "object"}, {"execute": ASYNC}
    await worker.ask(0, HostMethod.MOUNT, ["tools", None, worker.own(5, members, name="one", input_schema=good)])
    shown = []
    for schema in ("none", {**good, "properties": {}}):
        await worker.tell(HostMethod.DESCRIBE, [5, worker.describe(members, name="one", input_schema=schema)])
        shown.append(hosted.coordinator.get("tools", "one").input_schema)
    assert shown == [good, {**good, "properties": {}}]
    assert [(denial.operation, denial.target) for denial in module.denials] == [("describe", "tools:one")]


@pytest.mark.parametrize("points", [("context", "tools"), ("tools", "context")])
async def test_an_object_at_two_points_follows_the_policy_of_each(points: tuple[str, str], hosted: Hosted) -> None:
    _, worker = await hosted.start("context", "context-x")
    memory = worker.own(5, {"execute": ASYNC, "add_message": ASYNC})
    await worker.ask(0, HostMethod.MOUNT, [points[0], "recall", memory])
    await worker.ask(0, HostMethod.MOUNT, [points[1], "recall", worker.again(5)])
    handle = hosted.marshaller.handle_of(hosted.coordinator.get("tools", "recall"))
    assert handle is not None
    policy = handle.policy
    assert None not in (policy.admit, policy.on_success, policy.release, policy.answer_max)


async def test_an_object_without_a_name_is_mounted_under_none(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    with pytest.raises(ValueError, match="needs a name"):
        await worker.ask(0, HostMethod.MOUNT, ["tools", None, worker.own(5, {"execute": ASYNC})])
    assert module.handle_at("tools") is None


@pytest.mark.parametrize(
    "name", ["ECHO", "ech\u043e", "echo\u200b", "echo ", " echo", "\uff45cho", "e\x1b[0mcho", "", "e" * 129]
)
async def test_no_name_that_could_be_taken_for_anothers_is_mounted(name: str, hosted: Hosted) -> None:
    await hosted.start("tool", "tool-owner", tool("echo"))
    _, worker = await hosted.start("tool", "tool-x")
    with pytest.raises(ValueError, match=r"alone|no name"):
        await worker.ask(0, HostMethod.MOUNT, ["tools", name, worker.own(5, {"execute": ASYNC})])
    assert list(hosted.coordinator.get("tools")) == ["echo"]


async def test_a_module_may_have_names_of_its_own_that_differ_by_case(hosted: Hosted) -> None:
    _, worker = await hosted.start("tool", "tool-x", tool("echo"))
    await worker.ask(0, HostMethod.MOUNT, ["tools", "Echo", worker.own(6, {"execute": ASYNC})])
    assert set(hosted.coordinator.get("tools")) == {"echo", "Echo"}


@pytest.mark.parametrize(
    ("point", "name", "first", "second"),
    [
        ("tools", "bash", "tool", "tool"),
        ("tools", "bash", "tool", "hook"),
        ("providers", "mock", "provider", "provider"),
        ("context", None, "context", "context"),
    ],
)
async def test_a_taken_mount_name_is_refused_unless_replaces_says_so(
    point: str, name: str | None, first: str, second: str, hosted: Hosted
) -> None:
    place = name or point
    await hosted.start(first, f"{first}-first", mounts(point, name, lambda worker: worker.own(5, mark="first")))
    _, other = await hosted.start(second, f"{second}-second")
    with pytest.raises(ValueError, match=f"`{place}` is mounted by module `{first}-first`.*`replaces: {place}`"):
        await other.ask(0, HostMethod.MOUNT, [point, name, other.own(5, mark="second")])
    assert hosted.coordinator.get(point, name) is not None
    _, unrelated = await hosted.start(second, f"{second}-third", replaces=["something else"])
    with pytest.raises(ValueError, match="replaces"):
        await unrelated.ask(0, HostMethod.MOUNT, [point, name, unrelated.own(5, mark="third")])
    _, allowed = await hosted.start(second, f"{second}-fourth", replaces=[place])
    await allowed.ask(0, HostMethod.MOUNT, [point, name, allowed.own(5, mark="fourth")])
    assert hosted.marshaller.handle_of(hosted.coordinator.get(point, name)).described.count(b"fourth") == 1


async def test_a_tool_of_the_applications_own_is_not_a_modules_to_replace(hosted: Hosted) -> None:
    mine = SimpleNamespace(name="bash", execute=lambda input: None)
    hosted.coordinator.mount("tools", mine)
    _, worker = await hosted.start("tool", "tool-x")
    with pytest.raises(ValueError, match="mounted by the application"):
        await worker.ask(0, HostMethod.MOUNT, ["tools", "bash", worker.own(5)])
    assert hosted.coordinator.get("tools", "bash") is mine


async def test_a_module_may_mount_another_object_in_its_own_place(hosted: Hosted) -> None:
    _, worker = await hosted.start("tool", "tool-x", tool("echo"))
    await worker.ask(0, HostMethod.MOUNT, ["tools", "echo", worker.own(6, {"execute": ASYNC}, name="echo", version=2)])
    assert hosted.coordinator.get("tools", "echo").version == 2


async def test_a_module_unmounts_only_what_is_its_own(hosted: Hosted) -> None:
    _, first = await hosted.start("tool", "tool-first", tool("echo"))
    _, second = await hosted.start("tool", "tool-second", tool("echo"), replaces=["echo"])
    _, third = await hosted.start("tool", "tool-third")
    for worker in (third, first):
        await worker.ask(0, HostMethod.UNMOUNT, ["tools", "echo"])
        assert hosted.coordinator.get("tools", "echo") is not None
    await second.ask(0, HostMethod.UNMOUNT, ["tools", "echo"])
    assert hosted.coordinator.get("tools", "echo") is None


# -- reaching others ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "call", "point", "name", "grant"),
    [
        ("tool", "context", "context", None, 'permissions: {call: ["context"]}'),
        ("hook", "providers", "providers", "mock", 'permissions: {call: ["providers"]}'),
        ("tool", "tools:bash", "tools", "bash", 'permissions: {call: ["tools:bash"]}'),
    ],
)
async def test_calling_mounted_objects_takes_a_grant_that_the_refusal_names(
    kind: str, call: str, point: str, name: str | None, grant: str, hosted: Hosted
) -> None:
    owner_kind = point.rstrip("s")
    place = point if name is None else f"{point}:{name}"
    _, owner = await hosted.start(
        owner_kind, f"{owner_kind}-owner", mounts(point, name, lambda worker: worker.own(5, {"work": ASYNC}))
    )
    module, worker = await hosted.start(kind, f"{kind}-reaching")
    ((_, _, shown),) = changes(worker, MirrorSection.MOUNTED)
    with pytest.raises(RefusedError, match=f"`{kind}-reaching` may not call `{place}`"):
        await worker.answer(worker.call_object(shown.id))
    assert [denial.grant for denial in module.denials] == [grant]
    assert not owner.heard(Kind.REQUEST)
    _, granted = await hosted.start(kind, f"{kind}-granted", permissions={"call": [call]})
    ((_, _, given),) = changes(granted, MirrorSection.MOUNTED)
    granted.call_object(given.id)
    assert (await owner.request_from_host()).target == 5


async def test_a_contribution_is_no_way_around_a_missing_grant(hosted: Hosted) -> None:
    """A module may contribute what it was shown, but gets it back from the host as it was: shown, and no more."""
    _, owner = await hosted.start("context", "context-x", mounts("context", None, lambda w: w.own(5, {"work": ASYNC})))
    _, sly = await hosted.start("tool", "tool-sly")
    ((_, _, shown),) = changes(sly, MirrorSection.MOUNTED)
    await sly.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["loot", "sly", sly.function(7)])
    collecting = sly.request(0, HostMethod.COLLECT_CONTRIBUTIONS, ["loot"])
    sly.respond((await sly.request_from_host()).id, sly.foreign(shown.id))
    (returned,) = await sly.answer(collecting)
    assert returned.id == shown.id
    with pytest.raises(RefusedError):
        await sly.answer(sly.call_object(shown.id))
    assert not owner.heard(Kind.REQUEST)


@pytest.mark.parametrize("name", ["session.spawn", "session.resume"])
async def test_only_an_orchestrator_spawns_without_a_grant(name: str, hosted: Hosted) -> None:
    async def spawn(agent: str) -> str:
        return f"{agent} has answered"

    hosted.coordinator.register_capability(name, spawn)
    hosted.coordinator.register_capability("mention_resolver", lambda mention: mention.upper())

    async def known(worker: ScriptedWorker) -> dict[str, int]:
        frames = changes(worker, MirrorSection.CAPABILITY)
        return {unpack_prefix(frame.body)[0]: frame.handles[0].id for frame in frames}

    module, refused = await hosted.start("tool", "tool-refused")
    offered = await known(refused)
    with pytest.raises(RefusedError, match="`tool-refused` may not call `spawn`"):
        await refused.answer(refused.call_object(offered[name], 0, "helper"))
    assert [denial.grant for denial in module.denials] == ['permissions: {call: ["spawn"]}']
    assert await refused.answer(refused.call_object(offered["mention_resolver"], 0, "x")) == "X"
    for kind, permissions in (("tool", {"call": ["spawn"]}), ("orchestrator", {})):
        _, allowed = await hosted.start(kind, f"{kind}-allowed", permissions=permissions)
        offered = await known(allowed)
        assert await allowed.answer(allowed.call_object(offered[name], 0, "helper")) == "helper has answered"


@pytest.mark.parametrize("way", ["capability", "attribute"])
async def test_what_a_module_was_only_shown_it_cannot_offer_to_others_either(way: str, hosted: Hosted) -> None:
    _, owner = await hosted.start("context", "context-x", mounts("context", None, lambda w: w.own(5, {"work": ASYNC})))
    _, sly = await hosted.start("tool", "tool-sly")
    ((_, _, shown),) = changes(sly, MirrorSection.MOUNTED)
    _, accomplice = await hosted.start("tool", "tool-accomplice")
    ((_, _, known),) = changes(accomplice, MirrorSection.MOUNTED)
    if way == "capability":
        await sly.ask(0, HostMethod.REGISTER_CAPABILITY, sly.foreign(shown.id), head="loot")
    else:
        await sly.tell(HostMethod.SET_ATTRIBUTE, sly.foreign(shown.id), head="loot")
    await accomplice.round_trip()
    with pytest.raises(RefusedError):
        await accomplice.answer(accomplice.call_object(known.id))
    assert not owner.heard(Kind.REQUEST)


async def test_an_offer_of_what_was_mounted_gives_no_right_when_it_is_not(hosted: Hosted) -> None:
    """A tool offers what it was only shown; a module that starts when that is mounted no more may not call it."""
    provider = mounts("providers", "mock", lambda worker: worker.own(5, {"complete": ASYNC}, name="mock"))
    _, owner = await hosted.start("provider", "provider-x", provider)
    _, offering = await hosted.start("tool", "tool-x")
    shown = next(
        frame.handles[0].id
        for frame in offering.heard(Kind.MIRROR)
        if frame.method == MirrorSection.MOUNTED and offering.value(frame)[0] == "providers"
    )
    await offering.ask(0, HostMethod.REGISTER_CAPABILITY, offering.foreign(shown), head="washed")
    await owner.ask(0, HostMethod.UNMOUNT, ["providers", "mock"])
    _, late = await hosted.start("tool", "tool-late")
    (offer,) = [
        frame
        for frame in late.heard(Kind.MIRROR)
        if frame.method == MirrorSection.CAPABILITY and unpack_prefix(frame.body)[0] == "washed"
    ]
    with pytest.raises(RefusedError):
        await late.answer(late.call_object(offer.handles[0].id))
    assert not owner.heard(Kind.REQUEST)
