"""The host's own methods: what each does, refuses, drops, and ends a worker for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.policy.limits import ResourceLimits
from paddock.rpc.first_calls import FirstCalls
from paddock.session import quota
from paddock.session.host_api.service import HostService
from paddock.session.module import HostedModule
from paddock.session.requester import Requester, current_requester
from paddock.session.state.coordinator import headed
from paddock.token_bucket import TokenBucket
from paddock_sdk.contract.boundary_errors import OverLimitError, RefusedError
from paddock_sdk.contract.models import HookResult
from paddock_sdk.protocol import HandleSide, Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC, SYNC

from .conftest import Hosted, changes


async def test_every_method_of_the_protocol_is_served(hosted: Hosted) -> None:
    service = HostService(hosted.router, hosted.coordinator, hosted.mirrors, hosted.modules.of, hosted.definitions)
    assert service.methods == set(HostMethod)


# -- capabilities and attributes ---------------------------------------------------------------


@pytest.mark.difference("the capability `session.granted_paths` has the folders and files that the module was granted")
async def test_each_worker_has_its_own_grants_as_a_capability(hosted: Hosted) -> None:
    name = "session.granted_paths"
    hosted.own_capability = headed(hosted.marshaller, name, hosted.marshaller.encode({"read": ["/notes"], "write": []}))
    _, worker = await hosted.start("tool", "tool-x")
    hosted.own_capability = None
    _, other = await hosted.start("tool", "tool-y")
    told = [bytes(frame.body) for frame in worker.heard(Kind.MIRROR) if frame.method == MirrorSection.CAPABILITY]
    assert [name.encode() in body and b"/notes" in body for body in told] == [True]
    assert [frame for frame in other.heard(Kind.MIRROR) if frame.method == MirrorSection.CAPABILITY] == []
    assert hosted.coordinator.get_capability(name) is None
    with pytest.raises(RefusedError, match=r"session\.granted_paths"):
        await worker.ask(0, HostMethod.REGISTER_CAPABILITY, {"read": ["/"]}, head=name)


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
async def test_an_attribute_that_is_not_a_modules_to_set_is_not_set(name: str, hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    _, other = await hosted.start("tool", "tool-other")
    other.frames.clear()
    await worker.tell(HostMethod.SET_ATTRIBUTE, "mine now", head=name)
    assert [denial.target for denial in module.denials] == ["a notification SET_ATTRIBUTE"]
    await other.round_trip()
    assert other.heard(Kind.MIRROR) == []
    assert getattr(hosted.coordinator, name, None) != "mine now"


# -- contributions, cleanups, callbacks --------------------------------------------------------


async def test_contributions_come_in_the_order_of_registration(hosted: Hosted) -> None:
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
    await hosted.die(gone)
    cleaning = asyncio.ensure_future(hosted.coordinator.cleanup())
    for worker, name, id in ((second, "second", 8), (second, "second", 7), (first, "first", 7)):
        request = await worker.request_from_host()
        assert request.target == id
        order.append(name)
        worker.respond(request.id)
    await cleaning
    assert order == ["second", "second", "application", "first"]


@pytest.mark.parametrize("is_own", [False, True])
async def test_only_the_cleanup_of_another_module_needs_its_record(is_own: bool, hosted: Hosted) -> None:
    asked: list[str] = []

    async def keep(module: str, called: str) -> None:
        asked.append(module)

    module, worker = await hosted.start("tool", "tool-x")
    FirstCalls(keep).guard(hosted.router, module.peer, "tools[0]", hosted.router.method_name)
    _, other = await hosted.start("tool", "tool-other")
    await worker.ask(0, HostMethod.REGISTER_CAPABILITY, worker.function(7), head="work")
    await other.round_trip()
    (shown,) = [frame for frame in other.heard(Kind.MIRROR) if frame.method == MirrorSection.CAPABILITY]
    if is_own:
        await worker.ask(0, HostMethod.REGISTER_CLEANUP, [worker.again(7)])
    else:
        await other.ask(0, HostMethod.REGISTER_CLEANUP, [other.foreign(shown.handles[0].id)])
    cleaning = asyncio.ensure_future(hosted.coordinator.cleanup())
    worker.respond((await worker.request_from_host()).id)
    await cleaning
    assert asked == ([] if is_own else ["tool-x"])


async def test_cancellation_callbacks_run_when_they_are_triggered(hosted: Hosted) -> None:
    _, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.ON_CANCEL, [loop.function(7)])
    triggering = loop.request(0, HostMethod.TRIGGER_CANCEL_CALLBACKS, [])
    loop.respond((await loop.request_from_host()).id)
    assert await loop.answer(triggering) is None


@pytest.mark.parametrize("kind", ["tool", "provider", "context"])
async def test_only_hooks_and_orchestrators_decide_on_a_turns_cancellation(kind: str, hosted: Hosted) -> None:
    module, worker = await hosted.start(kind, "module-x")
    _, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.ON_CANCEL, [loop.function(7)])
    for urgency in ("graceful", "immediate"):
        with pytest.raises(RefusedError):
            await worker.ask(0, HostMethod.REQUEST_CANCEL, [urgency])
    with pytest.raises(RefusedError):
        await worker.ask(0, HostMethod.TRIGGER_CANCEL_CALLBACKS, [])
    assert hosted.coordinator.cancellation.state == "none"
    assert loop.heard(Kind.REQUEST) == []
    assert await loop.ask(0, HostMethod.REQUEST_CANCEL, ["immediate"]) is True
    with pytest.raises(RefusedError):
        await worker.ask(0, HostMethod.REQUEST_CANCEL, ["reset"])
    assert hosted.coordinator.cancellation.is_immediate
    await loop.ask(0, HostMethod.REQUEST_CANCEL, ["reset"])
    assert not hosted.coordinator.cancellation.is_cancelled
    assert [denial.operation for denial in module.denials] == ["cancel", "trigger", "reset"]


@pytest.mark.parametrize(("kind", "after"), [("hook", "immediate"), ("orchestrator", "none")])
async def test_only_the_orchestrator_withdraws_the_applications_cancel(kind: str, after: str, hosted: Hosted) -> None:
    _, worker = await hosted.start(kind, "module-x")
    hosted.coordinator.cancellation.request_immediate()
    await worker.ask(0, HostMethod.REQUEST_CANCEL, ["reset"])
    assert hosted.coordinator.cancellation.state == after


@pytest.mark.parametrize("kind", ["hook", "orchestrator"])
async def test_too_many_open_request_bytes_fail_or_end_by_kind(
    kind: str, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits(event: str, data: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ResourceLimits, "open_bytes_max", 1 << 16)
    module, worker = await hosted.start(kind, "module-x")
    hosted.coordinator.hooks.register("free:event", waits)
    data = {"much": "x" * 40_000}
    worker.request(0, HostMethod.EMIT, ["free:event", data])
    if kind == "orchestrator":
        with pytest.raises(OverLimitError, match="wait for their answers"):
            await worker.ask(0, HostMethod.EMIT, ["free:event", data])
        await worker.round_trip()
    else:
        worker.request(0, HostMethod.EMIT, ["free:event", data])
        await worker.cut_off()
        assert [report.reason.value for report in module.reports] == ["protocol"]


@pytest.mark.parametrize(
    ("by_the_application", "by_a_module", "next_turn"),
    [
        ([], ["graceful"], "none"),
        ([], ["immediate"], "none"),
        (["request_graceful"], [], "graceful"),
        (["request_graceful"], ["graceful"], "graceful"),
        (["request_graceful"], ["immediate"], "graceful"),
        (["request_immediate"], ["graceful"], "immediate"),
        (["request_graceful", "reset"], ["immediate"], "none"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["the application first", "the module first"])
async def test_only_a_modules_cancellation_ends_with_the_turn(
    by_the_application: list[str], by_a_module: list[str], next_turn: str, is_first: bool, hosted: Hosted
) -> None:
    _, hook = await hosted.start("hook", "hooks-x")
    token = hosted.coordinator.cancellation
    for whose in ("application", "module") if is_first else ("module", "application"):
        if whose == "application":
            for request in by_the_application:
                getattr(token, request)()
        else:
            for urgency in by_a_module:
                await hook.ask(0, HostMethod.REQUEST_CANCEL, [urgency])
    hosted.coordinator.begin_turn()
    assert token.state == next_turn
    await hook.round_trip()
    assert changes(hook, MirrorSection.CANCELLATION)[-1] == [next_turn, {}]


# -- hook results, approvals, display ----------------------------------------------------------


async def test_kinds_that_do_not_decide_may_not_act_on_hook_results(hosted: Hosted) -> None:
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
    requesters: list[Requester | None] = []

    class Approval:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            asked.append((prompt, options, timeout, default))
            requesters.append(current_requester())
            return "Allow"

    _, hook = await hosted.start("hook", "hooks-x")
    question = ["Go on?", ["Allow", "Deny"], 5.0, "deny"]
    with pytest.raises(RuntimeError, match="no approval system"):
        await hook.ask(0, HostMethod.REQUEST_APPROVAL, question)
    hosted.coordinator.approval_system = Approval()
    assert await hook.ask(0, HostMethod.REQUEST_APPROVAL, question) == "Allow"
    assert asked == [("hook hooks-x asks: Go on?", ["Allow", "Deny"], 5.0, "deny")]
    result = HookResult(action="ask_user", approval_prompt="Go on?")
    answer = await hook.ask(0, HostMethod.PROCESS_HOOK_RESULT, [result, "tool:pre", "guard"])
    assert answer.action == "continue"
    assert requesters == [Requester("hook", "hooks-x"), Requester("hook", "hooks-x", "guard")]
    assert current_requester() is None


async def test_a_hooks_question_is_asked_in_its_name_once_each_time(hosted: Hosted) -> None:
    requesters: list[tuple[str, Requester | None]] = []

    class Approval:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            requesters.append((prompt, current_requester()))
            return "Allow"

    async def has_it_asked(result: HookResult) -> None:
        await loop.ask(0, HostMethod.PROCESS_HOOK_RESULT, [result, "tool:pre", "bash"])

    hosted.coordinator.approval_system = Approval()
    _, hook = await hosted.start("hook", "hooks-x")
    _, loop = await hosted.start("orchestrator", "loop-x")
    await hook.ask(0, HostMethod.REGISTER, ["tool:pre", 0, "guard", hook.function(5)])
    for answer in (
        HookResult(action="ask_user", approval_prompt="Go on?"),
        {"action": "ask_user", "approval_prompt": "Go on?"},
    ):
        emitted = loop.request(0, HostMethod.EMIT, ["tool:pre", {}])
        hook.respond((await hook.request_from_host()).id, answer)
        question = await loop.answer(emitted)
        await has_it_asked(question.model_copy(update={"approval_prompt": "Give it all away?"}))
        await has_it_asked(question)
        await has_it_asked(question)
    passed_on = ("Go on?", Requester("orchestrator", "loop-x", "bash"))
    made_up = ("Give it all away?", Requester("orchestrator", "loop-x", "bash"))
    assert requesters == 2 * [made_up, ("Go on?", Requester("hook", "hooks-x")), passed_on]


async def test_a_message_is_shown_with_the_name_of_who_says_it(
    hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    shown: list[Any] = []
    _, hook = await hosted.start("hook", "hooks-x")
    with caplog.at_level("INFO"):
        await hook.tell(HostMethod.SHOW_MESSAGE, ["nobody looks", "info", "hook"])
    assert "hooks-x: nobody looks" in caplog.text
    hosted.coordinator.display_system = SimpleNamespace(show_message=lambda *message: shown.append(message))
    await hook.tell(HostMethod.SHOW_MESSAGE, ["look", "warning", "guard"])
    assert shown == [("look", "warning", "hooks-x:guard")]


# -- what does not fit: see also test_misfits.py ------------------------------------------------


@pytest.mark.parametrize("name", ["provider.before_load", "provider.load_failure", "session.spawn", "host.anything"])
async def test_no_tool_takes_a_name_of_the_application(name: str, hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-one")
    with pytest.raises(PermissionError):
        await worker.ask(0, HostMethod.REGISTER_CAPABILITY, 1, head=name)
    assert hosted.coordinator.get_capability(name) is None
    assert [denial.target for denial in module.denials] == [name]


async def test_attributes_that_are_too_much_are_not_set_and_end_no_module(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-hoarder")
    for number in range(16):
        worker.notify(HostMethod.SET_ATTRIBUTE, b"x" * 3_000_000, head=f"hoard_{number}")
    await worker.round_trip()
    refused = [
        f"the attribute hoard_{number}" for number in range(16) if not hasattr(hosted.coordinator, f"hoard_{number}")
    ]
    assert 10 < len(refused) < 16
    assert [denial.target for denial in module.denials] == refused
    assert "more left with the host" in module.denials[0].reason
    assert [f"the attribute {name}" for (name,) in changes(worker, MirrorSection.ATTRIBUTE_DELETED)] == refused
    assert not module.reports


async def test_a_request_that_leaves_too_much_fails_and_ends_no_module(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "MAX_THINGS", 40)
    module, worker = await hosted.start("hook", "hooks-hoarder")
    for number in range(40 - module.quota.number_of("mount")):
        worker.request(0, HostMethod.REGISTER_CONTRIBUTOR, ["channel", f"name{number}", None])
    await worker.round_trip()
    requests = {
        HostMethod.REGISTER: ["event", 0, "name", worker.function(1)],
        HostMethod.MOUNT: ["tools", "one more", worker.own(2)],
        HostMethod.REGISTER_CONTRIBUTOR: ["channel", "one more", None],
        HostMethod.REGISTER_CLEANUP: [worker.function(3)],
        HostMethod.ON_CANCEL: [worker.function(4)],
    }
    for method, args in requests.items():
        with pytest.raises(OverLimitError, match="the limit is 40 things"):
            await worker.ask(0, method, args)
    worker.notify(HostMethod.PATCH_STATE, [[["one more"], [1]]])
    await worker.tell(HostMethod.TOOL_STARTED, ["id", "one more"])
    assert "one more" not in hosted.coordinator.session_state
    assert not hosted.coordinator.cancellation.running_tools
    assert [(denial.operation, denial.target) for denial in module.denials] == [
        ("leave", "session_state['one more']"),
        ("run", "tools"),
    ]
    assert not module.reports


# -- what the host does for one module ---------------------------------------------------------


def _leave(budget: TokenBucket, tokens: float) -> None:
    budget.at_once, budget.per_second = tokens, 1e-6


async def _is_behind(module: HostedModule) -> None:
    async with asyncio.timeout(60):
        while not module.peer.admission.is_behind:
            await asyncio.sleep(0.01)
    assert module.is_running and not module.reports


async def test_long_lists_are_charged_to_who_asks_for_them(hosted: Hosted) -> None:
    for number in range(100):
        hosted.coordinator.hooks.register(f"event {number}", lambda event, data: None, name="handler")
    module, worker = await hosted.start("hook", "hooks-x")
    _leave(module.rate_limits.work, 5000)
    for _ in range(5):
        assert len(await worker.ask(0, HostMethod.LIST_HANDLERS, [None])) >= 100
    for _ in range(50):
        worker.request(0, HostMethod.LIST_HANDLERS, [None])
    await _is_behind(module)


async def test_small_changes_of_much_are_charged_to_who_left_it_and_makes_them(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x")
    _, other = await hosted.start("tool", "tool-other")
    await worker.tell(HostMethod.PATCH_STATE, [[["key"], [{"count": 0, "much": [1] * 1000}]]])
    _leave(module.rate_limits.work, 20_000)
    for number in range(10):
        worker.notify(HostMethod.PATCH_STATE, [[["key", "count"], [number]]])
    await worker.round_trip()
    assert hosted.coordinator.session_state["key"]["count"] == 9
    for number in range(100):
        worker.notify(HostMethod.PATCH_STATE, [[["key", "count"], [number]]])
    await _is_behind(module)
    await other.tell(HostMethod.PATCH_STATE, [[["key", "count"], ["the other's"]]])
    assert hosted.coordinator.session_state["key"]["count"] == "the other's"


async def test_what_the_application_contributes_is_charged_to_who_collects_it(hosted: Hosted) -> None:
    hosted.coordinator.register_contributor("channel", "much", lambda: [1] * 2000)
    module, worker = await hosted.start("tool", "tool-x")
    _leave(module.rate_limits.work, 20_000)
    for _ in range(5):
        assert len(await worker.ask(0, HostMethod.COLLECT_CONTRIBUTIONS, ["channel"])) == 1
    for _ in range(20):
        worker.request(0, HostMethod.COLLECT_CONTRIBUTIONS, ["channel"])
    await _is_behind(module)
