"""The host's own methods: what each does, refuses, drops, and ends a worker for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol import HandleSide, Kind
from paddock_sdk.protocol.body import unpack_prefix
from paddock_sdk.protocol.methods import HostMethod, MirrorSection

from ..rpc.scripted_worker import ASYNC, SYNC, ScriptedWorker, until
from .conftest import Hosted, changes, mounts, tool

# -- events ------------------------------------------------------------------------------------


async def test_an_emitted_event_is_heard_with_the_hosts_fields_and_answered_with_what_handlers_say(
    hosted: Hosted,
) -> None:
    heard: list[Any] = []

    async def handler(event: str, data: dict[str, Any]) -> HookResult:
        heard.append((event, data))
        return HookResult(action="deny", reason="not today")

    hosted.coordinator.hooks.set_default_fields(session_id="the-session")
    hosted.coordinator.hooks.register("tool:pre", handler)
    _, loop = await hosted.start("orchestrator", "loop-one")
    result = await loop.ask(0, HostMethod.EMIT, ["tool:pre", {"tool_name": "bash"}])
    assert isinstance(result, HookResult)
    assert (result.action, result.reason) == ("deny", "not today")
    ((event, data),) = heard
    assert event == "tool:pre"
    assert data.pop("timestamp")
    assert data == {"tool_name": "bash", "session_id": "the-session"}


async def test_an_event_outside_a_kinds_authority_reaches_nobody_is_noted_and_answered_as_if_nobody_minded(
    hosted: Hosted,
) -> None:
    heard: list[str] = []
    hosted.coordinator.hooks.register("tool:pre", lambda event, data: heard.append(event))
    module, tool_worker = await hosted.start("tool", "tool-forger")
    result = await tool_worker.ask(0, HostMethod.EMIT, ["tool:pre", {"tool_name": "bash"}])
    assert (result.action, result.data) == ("continue", {"tool_name": "bash"})
    assert await tool_worker.ask(0, HostMethod.EMIT_AND_COLLECT, ["tool:pre", {}, 1.0]) == []
    assert heard == []
    assert [(denial.operation, denial.target, denial.grant) for denial in module.denials] == [
        ("emit", "tool:pre", 'permissions: {emit: ["tool:pre"]}')
    ] * 2


async def test_what_handlers_answer_is_collected(hosted: Hosted) -> None:
    hosted.coordinator.hooks.register("count", lambda event, data: HookResult(data={"number": data["number"] + 1}))
    _, asker = await hosted.start("tool", "tool-asker")
    assert await asker.ask(0, HostMethod.EMIT_AND_COLLECT, ["count", {"number": 1}, 1.0]) == [{"number": 2}]


async def test_many_denials_are_noted_and_no_more_than_a_person_would_read(hosted: Hosted) -> None:
    module, forger = await hosted.start("tool", "tool-forger")
    for _ in range(150):
        forger.request(0, HostMethod.EMIT, ["tool:pre", {}])
    await forger.round_trip()
    assert len(module.denials) == 100


# -- handlers ----------------------------------------------------------------------------------


async def test_a_hooks_handler_is_asked_with_the_event_as_it_is_and_its_answer_counts(hosted: Hosted) -> None:
    _, hook = await hosted.start("hook", "hooks-one")
    await hook.ask(0, HostMethod.REGISTER, ["tool:pre", 5, "guard", hook.function(7)])
    assert await hook.ask(0, HostMethod.LIST_HANDLERS, [None]) == {"tool:pre": ["guard"]}
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit("tool:pre", {"tool_name": "bash"}))
    request = await hook.request_from_host()
    assert (request.target, request.method) == (7, 0)
    ((event, data), kwargs) = hook.value(request)
    assert (event, data["tool_name"], kwargs) == ("tool:pre", "bash", {})
    hook.respond(request.id, HookResult(action="deny", reason="no"))
    assert (await emitted).reason == "no"


async def test_an_event_is_encoded_once_for_all_who_hear_it(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = []
    for number in range(3):
        _, hook = await hosted.start("hook", f"hooks-{number}")
        await hook.ask(0, HostMethod.REGISTER, ["news", 0, None, hook.function(7)])
        workers.append(hook)
    encoded = []
    encode = hosted.values.encode
    monkeypatch.setattr(hosted.values, "encode", lambda value: (encoded.append(value), encode(value))[1])
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit_payload("news", Payload.of({"number": 1})))
    for hook in workers:
        hook.respond((await hook.request_from_host()).id)
    await emitted
    assert len(encoded) == 1


async def test_an_unregistered_handler_is_asked_no_more(hosted: Hosted) -> None:
    _, hook = await hosted.start("hook", "hooks-one")
    numbers = [
        await hook.ask(0, HostMethod.REGISTER, ["news", 0, name, hook.function(id)])
        for name, id in (("first", 7), ("second", 8), ("second", 9))
    ]
    await hook.ask(0, HostMethod.UNREGISTER, [numbers[0]])
    assert await hook.ask(0, HostMethod.LIST_HANDLERS, ["news"]) == {"news": ["second", "second"]}
    await hook.ask(0, HostMethod.UNREGISTER_NAME, ["second"])
    await hook.ask(0, HostMethod.UNREGISTER_NAME, ["second"])
    await hook.ask(0, HostMethod.UNREGISTER_NAME, ["never registered"])
    assert not hosted.coordinator.hooks.has_handlers("news")


async def test_a_module_cannot_take_anothers_handler_away(hosted: Hosted) -> None:
    _, guard = await hosted.start("hook", "hooks-guard")
    _, thief = await hosted.start("hook", "hooks-thief")
    number = await guard.ask(0, HostMethod.REGISTER, ["tool:pre", 0, "guard", guard.function(7)])
    await thief.ask(0, HostMethod.UNREGISTER, [number])
    await thief.ask(0, HostMethod.UNREGISTER_NAME, ["guard"])
    assert hosted.coordinator.hooks.list_handlers("tool:pre") == {"tool:pre": ["guard"]}


@pytest.mark.parametrize("kind", ["tool", "provider", "context", "orchestrator"])
async def test_a_handler_of_a_module_that_is_no_hook_is_refused_and_the_grant_named(kind: str, hosted: Hosted) -> None:
    module, worker = await hosted.start(kind, f"{kind}-x")
    with pytest.raises(RefusedError, match="may not register a handler for `tool:pre`") as refused:
        await worker.ask(0, HostMethod.REGISTER, ["tool:pre", 0, None, worker.function(7)])
    assert 'permissions: {hooks: ["tool:pre"]}' in str(vars(refused.value)["hints"])
    assert [denial.grant for denial in module.denials] == ['permissions: {hooks: ["tool:pre"]}']
    assert not hosted.coordinator.hooks.has_handlers("tool:pre")


async def test_a_handler_is_registered_by_any_kind_that_has_the_grant(hosted: Hosted) -> None:
    _, worker = await hosted.start("tool", "tool-x", permissions={"hooks": ["tool:*"]})
    await worker.ask(0, HostMethod.REGISTER, ["tool:pre", 0, None, worker.function(7)])
    with pytest.raises(RefusedError):
        await worker.ask(0, HostMethod.REGISTER, ["session:end", 0, None, worker.function(8)])


async def test_a_handler_that_is_no_object_is_a_type_error(hosted: Hosted) -> None:
    _, hook = await hosted.start("hook", "hooks-one")
    with pytest.raises(TypeError, match="callable"):
        await hook.ask(0, HostMethod.REGISTER, ["tool:pre", 0, None, "not a function"])


async def test_default_fields_are_for_hooks_and_orchestrators_to_set(hosted: Hosted) -> None:
    module, tool_worker = await hosted.start("tool", "tool-x")
    with pytest.raises(RefusedError):
        await tool_worker.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"session_id": "forged"}])
    assert len(module.denials) == 1
    _, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"turn": 1}])
    with pytest.raises(RuntimeError, match="JSON"):
        await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"turn": float("nan")}])
    heard: list[dict[str, Any]] = []
    hosted.coordinator.hooks.register("news", lambda event, data: heard.append(data))
    await loop.ask(0, HostMethod.EMIT, ["news", {}])
    assert heard[0]["turn"] == 1


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


async def test_an_object_mounted_without_a_name_goes_by_its_own(hosted: Hosted) -> None:
    await hosted.start("tool", "tool-x", mounts("tools", None, lambda worker: worker.own(5, name="echo")))
    assert hosted.coordinator.get("tools", "echo") is not None


@pytest.mark.parametrize(
    ("point", "name", "error", "said"),
    [
        ("tools", None, ValueError, "needs a name"),
        ("hooks", None, ValueError, "hooks"),
        ("nowhere", "x", ValueError, "nowhere"),
        ("module-source-resolver", None, ValueError, "resolver"),
    ],
)
async def test_a_mount_at_no_place_for_it_is_refused(
    point: str, name: str | None, error: type[Exception], said: str, hosted: Hosted
) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    with pytest.raises(error, match=said):
        await worker.ask(0, HostMethod.MOUNT, [point, name, worker.own(5, {"execute": ASYNC})])
    assert module.handle_at(point) is None


async def test_plain_data_and_what_belongs_to_others_cannot_be_mounted(hosted: Hosted) -> None:
    _, owner = await hosted.start("tool", "tool-owner", tool("theirs"))
    _, worker = await hosted.start("tool", "tool-x")
    ((_, _, entry),) = changes(worker, MirrorSection.MOUNTED)
    for value in ("text", ["list"], worker.foreign(entry.id)):
        with pytest.raises(TypeError, match="of the module's own"):
            await worker.ask(0, HostMethod.MOUNT, ["tools", "mine", value])
    assert list(hosted.coordinator.get("tools")) == ["theirs"]
    await owner.round_trip()


@pytest.mark.parametrize(("point", "kind"), [("orchestrator", "tool"), ("context", "hook"), ("context", "provider")])
async def test_only_a_module_of_the_kind_becomes_the_orchestrator_or_the_context(
    point: str, kind: str, hosted: Hosted
) -> None:
    """Whoever is either sees every message, and decides what is asked of whom."""
    _, worker = await hosted.start(kind, f"{kind}-one")
    with pytest.raises(ValueError, match=f"is mounted by its {point} module"):
        await worker.ask(0, HostMethod.MOUNT, [point, None, worker.own(5, {"execute": ASYNC})])
    assert hosted.coordinator.get(point) is None


@pytest.mark.parametrize(
    ("point", "name", "first", "second"),
    [
        ("tools", "bash", "tool", "tool"),
        ("tools", "bash", "tool", "hook"),
        ("providers", "mock", "provider", "provider"),
        ("context", None, "context", "context"),
    ],
)
async def test_a_place_that_is_taken_is_refused_unless_the_entry_says_that_it_replaces(
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
    assert hosted.values.handle_of(hosted.coordinator.get(point, name)).described.count(b"fourth") == 1


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
async def test_reaching_for_what_is_mounted_takes_a_grant_which_the_refusal_names(
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
async def test_starting_a_session_takes_a_grant_unless_it_is_an_orchestrator_that_does(
    name: str, hosted: Hosted
) -> None:
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
        sly.notify(HostMethod.SET_ATTRIBUTE, sly.foreign(shown.id), head="loot")
        await sly.round_trip()
    await accomplice.round_trip()
    with pytest.raises(RefusedError):
        await accomplice.answer(accomplice.call_object(known.id))
    assert not owner.heard(Kind.REQUEST)


# -- capabilities and attributes ---------------------------------------------------------------


async def test_a_capability_is_there_for_the_application_when_its_registration_returns(hosted: Hosted) -> None:
    _, worker = await hosted.start("tool", "tool-x")
    await worker.ask(0, HostMethod.REGISTER_CAPABILITY, worker.own(9, {"look": SYNC}), head="eyes")
    pending = hosted.coordinator.get_capability("eyes").look()
    worker.respond((await worker.request_from_host()).id, "seen")
    assert await pending == "seen"


async def test_a_capability_of_the_hosts_is_not_a_modules_to_replace(hosted: Hosted) -> None:
    hosted.coordinator.register_capability("session.working_dir", "/here")
    module, worker = await hosted.start("tool", "tool-x")
    with pytest.raises(RefusedError, match=r"session\.working_dir"):
        await worker.ask(0, HostMethod.REGISTER_CAPABILITY, "/elsewhere", head="session.working_dir")
    assert hosted.coordinator.get_capability("session.working_dir") == "/here"
    assert len(module.denials) == 1


@pytest.mark.parametrize(
    "name",
    [
        "hooks",
        "mount",
        "session_state",
        "_observer",
        "_driver",
        "_capabilities",
        "__class__",
        "loader",
        "not a name",
        "",
    ],
)
async def test_an_attribute_that_is_not_a_modules_to_set_ends_the_worker(name: str, hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    _, other = await hosted.start("tool", "tool-other")
    other.frames.clear()
    worker.notify(HostMethod.SET_ATTRIBUTE, "mine now", head=name)
    await worker.cut_off()
    assert [report.reason.value for report in module.reports] == ["protocol"]
    await other.round_trip()
    assert other.heard(Kind.MIRROR) == []
    assert getattr(hosted.coordinator, name, None) != "mine now"


# -- contributions, cleanups, callbacks --------------------------------------------------------


async def test_contributions_come_in_the_order_of_registration_whoever_registered(hosted: Hosted) -> None:
    _, first = await hosted.start("tool", "tool-first")
    _, second = await hosted.start("tool", "tool-second")
    await first.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", "a", first.function(7, SYNC)])
    hosted.coordinator.register_contributor("colours", "b", lambda: "of the application")
    await second.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", "c", second.function(7)])
    await second.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", "d", "no function"])
    await first.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", "e", first.function(8)])
    collecting = first.request(0, HostMethod.COLLECT_CONTRIBUTIONS, ["colours"])
    first.respond((await first.request_from_host()).id, "red")
    second.fail((await second.request_from_host()).id, ValueError("out of colours"))
    first.respond((await first.request_from_host()).id, ["blue", "green"])
    assert await first.answer(collecting) == ["red", "of the application", ["blue", "green"]]
    assert await first.ask(0, HostMethod.COLLECT_CONTRIBUTIONS, ["no such channel"]) == []


async def test_no_object_of_the_hosts_own_bookkeeping_reaches_a_module(hosted: Hosted) -> None:
    """What a worker wraps its objects in is turned into stand-ins, or dropped, and never handed on as the host's."""
    _, worker = await hosted.start("tool", "tool-x")
    _, other = await hosted.start("tool", "tool-other")
    other.frames.clear()
    await worker.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", "x", [worker.own(9, {"work": ASYNC})]])
    await other.round_trip()
    for frame in other.heard(Kind.MIRROR):
        for entry in frame.handles:
            assert "rebind" not in [member.name for member in other.description(entry).members]
            assert entry.side == HandleSide.SENDER


async def test_cleanups_run_latest_first_and_only_of_lives_that_are_not_over(hosted: Hosted) -> None:
    order: list[str] = []
    _, first = await hosted.start("tool", "tool-first")
    _, second = await hosted.start("tool", "tool-second")
    gone, dying = await hosted.start("tool", "tool-gone")
    await first.ask(0, HostMethod.REGISTER_CLEANUP, [first.function(7)])
    hosted.coordinator.register_cleanup(lambda: order.append("application"))
    await dying.ask(0, HostMethod.REGISTER_CLEANUP, [dying.function(7)])
    await second.ask(0, HostMethod.REGISTER_CLEANUP, [second.function(7, SYNC)])
    await second.ask(0, HostMethod.REGISTER_CLEANUP, [second.function(8)])
    gone.supervisor.die()  # type: ignore[attr-defined]
    await until(lambda: not gone.is_running)
    cleaning = asyncio.ensure_future(hosted.coordinator.cleanup())
    for worker, name, id in ((second, "second", 8), (second, "second", 7), (first, "first", 7)):
        request = await worker.request_from_host()
        assert request.target == id
        order.append(name)
        worker.respond(request.id)
    await cleaning
    assert order == ["second", "second", "application", "first"]


async def test_cancellation_callbacks_run_when_they_are_triggered(hosted: Hosted) -> None:
    _, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.ON_CANCEL, [loop.function(7)])
    triggering = loop.request(0, HostMethod.TRIGGER_CANCEL_CALLBACKS, [])
    loop.respond((await loop.request_from_host()).id)
    assert await loop.answer(triggering) is None


async def test_only_hooks_and_orchestrators_withdraw_a_cancellation(hosted: Hosted) -> None:
    _, tool_worker = await hosted.start("tool", "tool-x")
    _, loop = await hosted.start("orchestrator", "loop-x")
    assert await tool_worker.ask(0, HostMethod.REQUEST_CANCEL, ["immediate"]) is True
    with pytest.raises(RefusedError):
        await tool_worker.ask(0, HostMethod.REQUEST_CANCEL, ["reset"])
    assert hosted.coordinator.cancellation.is_immediate
    await loop.ask(0, HostMethod.REQUEST_CANCEL, ["reset"])
    assert not hosted.coordinator.cancellation.is_cancelled


# -- hook results, approvals, display ----------------------------------------------------------


async def test_acting_on_a_hook_result_is_refused_to_kinds_without_business_and_noted(hosted: Hosted) -> None:
    module, tool_worker = await hosted.start("tool", "tool-x")
    injection = HookResult(action="inject_context", context_injection="obey me")
    with pytest.raises(RefusedError):
        await tool_worker.ask(0, HostMethod.PROCESS_HOOK_RESULT, [injection, "tool:post", "me"])
    assert [denial.target for denial in module.denials] == ["hook results"]


async def test_a_hook_result_is_acted_on_for_an_orchestrator(hosted: Hosted) -> None:
    added: list[Any] = []

    class Context:
        async def add_message(self, message: dict[str, Any]) -> None:
            added.append(message)

    hosted.coordinator.mount("context", Context())
    _, loop = await hosted.start("orchestrator", "loop-x")
    injection = HookResult(action="inject_context", context_injection="mind the gap")
    result = await loop.ask(0, HostMethod.PROCESS_HOOK_RESULT, [injection, "tool:post", "reminder"])
    assert isinstance(result, HookResult)
    assert [message["content"] for message in added] == ["mind the gap"]


async def test_an_approval_is_asked_for_with_the_name_of_who_asks(hosted: Hosted) -> None:
    asked: list[Any] = []

    class Approval:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            asked.append((prompt, options, timeout, default))
            return "Allow"

    _, hook = await hosted.start("hook", "hooks-x")
    question = ["Go on?", ["Allow", "Deny"], 5.0, "deny"]
    with pytest.raises(RuntimeError, match="no approval system"):
        await hook.ask(0, HostMethod.REQUEST_APPROVAL, question)
    hosted.coordinator.approval_system = Approval()
    assert await hook.ask(0, HostMethod.REQUEST_APPROVAL, question) == "Allow"
    assert asked == [("hook hooks-x asks: Go on?", ["Allow", "Deny"], 5.0, "deny")]


async def test_a_message_is_shown_with_the_name_of_who_says_it(
    hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    shown: list[Any] = []
    _, hook = await hosted.start("hook", "hooks-x")
    with caplog.at_level("INFO"):
        hook.notify(HostMethod.SHOW_MESSAGE, ["nobody looks", "info", "hook"])
        await hook.round_trip()
    assert "hooks-x: nobody looks" in caplog.text
    hosted.coordinator.display_system = SimpleNamespace(show_message=lambda *message: shown.append(message))
    hook.notify(HostMethod.SHOW_MESSAGE, ["look", "warning", "guard"])
    await hook.round_trip()
    assert shown == [("look", "warning", "hooks-x:guard")]


async def test_a_new_turn_counts_injections_anew(hosted: Hosted) -> None:
    _, loop = await hosted.start("orchestrator", "loop-x")
    hosted.coordinator._current_turn_injections = 7
    loop.notify(HostMethod.RESET_TURN, [])
    await loop.round_trip()
    assert hosted.coordinator._current_turn_injections == 0


# -- nonsense ----------------------------------------------------------------------------------

_NONSENSE: list[tuple[HostMethod, Any]] = [
    (HostMethod.REGISTER, [1, 2, 3]),
    (HostMethod.REGISTER, ["tool:pre", "first", None, 1]),
    (HostMethod.UNREGISTER, ["x"]),
    (HostMethod.UNREGISTER_NAME, [1]),
    (HostMethod.LIST_HANDLERS, [1]),
    (HostMethod.EMIT, ["x" * 201, {}]),
    (HostMethod.EMIT, ["x"]),
    (HostMethod.EMIT, ["x", {"number": float("nan")}]),
    (HostMethod.EMIT, ["x", {b"bytes": 1}]),
    (HostMethod.SET_DEFAULT_FIELDS, [1]),
    (HostMethod.SET_DEFAULT_FIELDS, [{1: 1}]),
    (HostMethod.MOUNT, [1, 2]),
    (HostMethod.UNMOUNT, [None, None]),
    (HostMethod.REGISTER_CONTRIBUTOR, ["x", 1, 2]),
    (HostMethod.REGISTER_CLEANUP, ["x"]),
    (HostMethod.ON_CANCEL, [None]),
    (HostMethod.REQUEST_CANCEL, ["now"]),
    (HostMethod.DELETE_ATTRIBUTE, [1]),  # a notification, which is not asked for
    (HostMethod(1), None),
]


@pytest.mark.parametrize(
    ("method", "value"), _NONSENSE, ids=[f"{method.name} {str(value)[:30]}" for method, value in _NONSENSE]
)
async def test_a_request_that_is_none_ends_the_worker_and_nobody_else(
    method: HostMethod, value: Any, hosted: Hosted
) -> None:
    module, worker = await hosted.start("orchestrator", "loop-x")
    _, other = await hosted.start("tool", "tool-x")
    worker.request(0, method, value)
    await worker.cut_off()
    assert [report.reason.value for report in module.reports] == ["protocol"]
    assert module.reports[0].detail
    await other.round_trip()


@pytest.mark.parametrize(
    ("method", "value"),
    [
        (HostMethod.DELETE_ATTRIBUTE, [1]),
        (HostMethod.TOOL_STARTED, ["x"]),
        (HostMethod.TOOL_COMPLETED, [1]),
        (HostMethod.SHOW_MESSAGE, [1, 2]),
        (HostMethod.DESCRIBE, ["x", b""]),
        (HostMethod.EMIT, ["x", {}]),  # a request, which is not told in passing
    ],
)
async def test_a_notification_that_is_none_ends_the_worker(method: HostMethod, value: Any, hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    worker.notify(method, value)
    await worker.cut_off()
    assert [report.reason.value for report in module.reports] == ["protocol"]


@pytest.mark.parametrize(
    ("method", "value"),
    [
        (HostMethod.EMIT_AND_COLLECT, ["x", {}]),
        (HostMethod.COLLECT_CONTRIBUTIONS, [1]),
        (HostMethod.PROCESS_HOOK_RESULT, [{"action": "deny"}, "x", "y"]),
        (HostMethod.REQUEST_APPROVAL, ["?", [], 1.0, "maybe"]),
    ],
)
async def test_a_slow_request_that_is_none_fails(method: HostMethod, value: Any, hosted: Hosted) -> None:
    _, worker = await hosted.start("orchestrator", "loop-x")
    with pytest.raises(Exception, match="that is none"):
        await worker.ask(0, method, value)


async def test_a_module_that_lies_is_ended_and_the_others_go_on(hosted: Hosted) -> None:
    _, honest = await hosted.start("tool", "tool-honest", tool("echo"))
    _, liar = await hosted.start("tool", "tool-liar")
    liar.request(0, 999, None)
    await liar.cut_off()
    pending = asyncio.ensure_future(hosted.coordinator.get("tools", "echo").execute({}))
    honest.respond((await honest.request_from_host()).id, "still here")
    assert await pending == "still here"


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1.0, 1e12])
@pytest.mark.parametrize(
    ("method", "args"),
    [
        (HostMethod.EMIT_AND_COLLECT, lambda timeout: ["news", {}, timeout]),
        (HostMethod.REQUEST_APPROVAL, lambda timeout: ["Go on?", ["Allow"], timeout, "deny"]),
    ],
)
async def test_a_wait_that_no_clock_can_measure_never_reaches_the_loops_timers(
    timeout: float, method: HostMethod, args: Any, hosted: Hosted
) -> None:
    _, worker = await hosted.start("orchestrator", "loop-one")
    with pytest.raises(Exception, match="that is none"):
        await worker.ask(0, method, args(timeout))


@pytest.mark.parametrize("name", ["provider.before_load", "provider.load_failure", "session.spawn", "host.anything"])
async def test_no_tool_takes_a_name_at_which_the_session_or_its_callers_look_for_the_application(
    name: str, hosted: Hosted
) -> None:
    module, worker = await hosted.start("tool", "tool-one")
    body, _ = worker.codec.encode(name)
    value, _ = worker.codec.encode(1)
    id, frame = worker.connection.send_request(0, HostMethod.REGISTER_CAPABILITY, body + value)
    worker.write(frame)
    with pytest.raises(PermissionError):
        await worker.answer(id)
    assert hosted.coordinator.get_capability(name) is None
    assert [denial.target for denial in module.denials] == [name]


async def test_a_module_that_leaves_ever_more_with_the_host_is_ended_for_it(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-hoarder")
    value, _ = worker.codec.encode(b"x" * 3_000_000)
    for number in range(16):
        name, _ = worker.codec.encode(f"hoard_{number}")
        worker.write(worker.connection.send_notify(0, HostMethod.SET_ATTRIBUTE, name + value))
    await worker.cut_off()
    assert [report.reason.value for report in module.reports] == ["protocol"]
    assert "more left with the host" in module.reports[0].detail
