"""Events and handlers of modules at the host: who may emit, who hears, and in what order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.plan.model import Kind
from paddock.session.quota import ModuleRateLimits
from paddock.token_bucket import TokenBucket
from paddock_sdk.contract.boundary_errors import OverLimitError, RefusedError
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.emitter import event_emitter
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.methods import HostMethod
from support.rows import each_row

from ..rpc.scripted_worker import until
from .conftest import Hosted

# -- events ------------------------------------------------------------------------------------


async def test_an_event_outside_its_kind_is_dropped_noted_and_answered(
    hosted: Hosted,
) -> None:
    heard: list[str] = []
    hosted.coordinator.hooks.register("tool:pre", lambda event, data: heard.append(event))
    module, tool_worker = await hosted.start("tool", "tool-forger")
    result = await tool_worker.ask(0, HostMethod.EMIT, ["tool:pre", {"tool_name": "bash"}])
    assert (result.action, result.data) == ("continue", {"tool_name": "bash"})
    assert await tool_worker.ask(0, HostMethod.EMIT_AND_COLLECT, ["tool:pre", {}, 1.0]) == []
    assert heard == []
    assert [(denial.operation, denial.target, denial.grant, denial.times) for denial in module.denials] == [
        ("emit", "tool:pre", 'permissions: {emit: ["tool:pre"]}', 2)
    ]


@pytest.mark.parametrize("kind", ["tool", "orchestrator"])
async def test_a_handler_learns_whose_event_it_is_and_data_stays_as_it_is(kind: str, hosted: Hosted) -> None:
    heard: list[Any] = []
    for event in ("news", "count"):
        hosted.coordinator.hooks.register(event, lambda event, data: heard.append((event, event_emitter(), data)))
    _, worker = await hosted.start(kind, f"{kind}-x")
    await worker.ask(0, HostMethod.EMIT, ["news", ["no", "mapping"]])
    await worker.ask(0, HostMethod.EMIT_AND_COLLECT, ["count", {"emitter": "somebody else"}, 1.0])
    assert heard == [
        ("news", f"{kind}-x", ["no", "mapping"]),
        ("count", f"{kind}-x", {"emitter": "somebody else"}),
    ]
    assert await worker.ask(0, HostMethod.EMITTER, []) is None, "it asks of its own accord, for no event"


# -- floods ------------------------------------------------------------------------------------


def _nearly_spent(budget: TokenBucket) -> None:
    """Leave room for two, and for none that comes later."""
    budget.at_once, budget.per_second = 2.0, 0.0


async def test_a_flood_of_events_is_dropped_answered_and_noted_once(hosted: Hosted) -> None:
    heard: list[str] = []
    hosted.coordinator.hooks.register("news", lambda event, data: heard.append(event))
    module, worker = await hosted.start("orchestrator", "loop-x")
    _nearly_spent(module.rate_limits.events)
    for _ in range(20):
        result = await worker.ask(0, HostMethod.EMIT, ["news", {"number": 1}])
        assert result.action == "continue"
    assert (result.data, heard) == ({"number": 1}, ["news"] * 2)
    assert await worker.ask(0, HostMethod.EMIT_AND_COLLECT, ["news", {}, 1.0]) == []
    (denial,) = module.denials
    assert (denial.operation, denial.target, denial.times) == ("emit", "events", 1)
    assert "at once" in denial.reason


@each_row("kind", ["provider", "orchestrator"])
def test_a_module_that_streams_too_fast_waits_before_a_word_is_dropped(kind: Kind) -> None:
    values = 36  # of a delta that one other module handles, and of what it is answered with
    rates = ModuleRateLimits(kind)
    assert rates.events.at_once * values > rates.work.at_once
    assert rates.events.per_second * values > rates.work.per_second
    assert ModuleRateLimits("tool").events.per_second < rates.events.per_second


async def test_a_provider_that_waits_for_its_turn_loses_no_word(hosted: Hosted) -> None:
    heard: list[int] = []
    hosted.coordinator.hooks.register("content_block:delta", lambda event, data: heard.append(data["number"]))
    module, worker = await hosted.start("provider", "provider-x")
    work = module.rate_limits.work
    work.at_once, work.per_second = 100.0, 20_000.0
    asked = (worker.ask(0, HostMethod.EMIT, ["content_block:delta", {"number": number}]) for number in range(200))
    await asyncio.gather(*asked)
    assert heard == list(range(200))
    assert not module.denials


async def test_only_a_flood_of_gate_events_shuts_gates(hosted: Hosted) -> None:
    asked: list[str] = []
    hosted.coordinator.hooks.register("tool:pre", lambda event, data: asked.append(event))
    module, worker = await hosted.start("orchestrator", "loop-x")
    for budget in (module.rate_limits.events, module.rate_limits.gates):
        _nearly_spent(budget)
    hosted.coordinator.hooks.register("news", lambda event, data: None)
    for _ in range(5):
        await worker.ask(0, HostMethod.EMIT, ["news", {}])
    answers = [(await worker.ask(0, HostMethod.EMIT, ["tool:pre", {}])).action for _ in range(4)]
    assert answers == ["continue", "continue", "deny", "deny"]
    assert len(asked) == 2
    assert {denial.target for denial in module.denials} == {"events", "gates"}


async def test_a_flood_of_messages_is_dropped_whichever_way_they_come(hosted: Hosted) -> None:
    shown: list[str] = []
    hosted.coordinator.display_system = SimpleNamespace(show_message=lambda text, level, source: shown.append(text))
    module, worker = await hosted.start("hook", "hooks-loud")
    _nearly_spent(module.rate_limits.messages)
    for number in range(3):
        worker.notify(HostMethod.SHOW_MESSAGE, [f"message {number}", "info", "hook"])
    await worker.round_trip()
    result = HookResult(action="continue", user_message="one more")
    await worker.ask(0, HostMethod.PROCESS_HOOK_RESULT, [result, "news", "loud"])
    assert shown == ["message 0", "message 1"]
    assert [denial.target for denial in module.denials] == ["messages"]


async def test_a_flood_of_questions_is_refused_and_allows_nothing(hosted: Hosted) -> None:
    asked: list[str] = []

    async def allow(prompt: str, options: list[str], timeout: float, default: str) -> str:
        asked.append(prompt)
        return "Allow"

    hosted.coordinator.approval_system = SimpleNamespace(request_approval=allow)
    module, worker = await hosted.start("hook", "hooks-asking")
    _nearly_spent(module.rate_limits.approvals)
    question = HookResult(action="ask_user", approval_prompt="Go on?", approval_default="allow")
    for _ in range(2):
        answer = await worker.ask(0, HostMethod.PROCESS_HOOK_RESULT, [question, "tool:pre", "asking"])
        assert answer.action == "continue"
    answer = await worker.ask(0, HostMethod.PROCESS_HOOK_RESULT, [question, "tool:pre", "asking"])
    assert answer.action == "deny"
    with pytest.raises(RefusedError, match="approvals"):
        await worker.ask(0, HostMethod.REQUEST_APPROVAL, ["Go on?", ["Allow"], 5.0, "allow"])
    assert len(asked) == 2
    assert [denial.times for denial in module.denials] == [2]


async def test_questions_that_wait_for_an_answer_are_bounded(hosted: Hosted) -> None:
    answered = asyncio.Event()

    async def wait(prompt: str, options: list[str], timeout: float, default: str) -> str:
        await answered.wait()
        return "Allow"

    hosted.coordinator.approval_system = SimpleNamespace(request_approval=wait)
    module, worker = await hosted.start("hook", "hooks-asking")
    module.rate_limits.approvals = TokenBucket(per_second=0.5, at_once=1000)
    waiting = [worker.request(0, HostMethod.REQUEST_APPROVAL, ["?", ["Allow"], 5.0, "deny"]) for _ in range(40)]
    with pytest.raises(RefusedError, match="wait for an answer"):
        await worker.answer(waiting[-1])
    answered.set()
    assert await worker.answer(waiting[0]) == "Allow"
    await until(lambda: module.open_approvals == 0)
    assert await worker.ask(0, HostMethod.REQUEST_APPROVAL, ["?", ["Allow"], 5.0, "deny"]) == "Allow"


# -- handlers ----------------------------------------------------------------------------------


async def test_an_event_is_encoded_once_for_all_who_hear_it(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = []
    for number in range(3):
        _, hook = await hosted.start("hook", f"hooks-{number}")
        await hook.ask(0, HostMethod.REGISTER, ["news", 0, None, hook.function(7)])
        workers.append(hook)
    encoded: list[object] = []

    def count(encode: Callable[..., Any]) -> Callable[..., Any]:
        return lambda codec, value, *args, **options: (
            encoded.append(value),
            encode(codec, value, *args, **options),
        )[1]

    for name in ("encode", "encode_shallow"):
        monkeypatch.setattr(Codec, name, count(getattr(Codec, name)))
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit_payload("news", Payload.of({"number": 1})))
    for hook in workers:
        request = await hook.request_from_host()
        hook.write(hook.connection.send_response(request.id, b"\xc0"))  # past the codec, which is counted
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
async def test_a_handler_of_another_kind_is_refused_naming_the_grant(kind: str, hosted: Hosted) -> None:
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


async def _carried(hosted: Hosted) -> dict[str, Any]:
    """Return the data of an event as a handler is given it, but for the time."""
    heard: list[dict[str, Any]] = []
    unregister = hosted.coordinator.hooks.register("news", lambda event, data: heard.append(data))
    await hosted.coordinator.hooks.emit("news", {})
    unregister()
    return {name: value for name, value in heard[0].items() if name != "timestamp"}


@pytest.mark.parametrize("kind", ["tool", "hook", "provider", "context"])
async def test_default_fields_are_for_the_orchestrator_to_set(hosted: Hosted, kind: Kind) -> None:
    hosted.coordinator.hooks.set_default_fields(session_id="s")
    module, worker = await hosted.start(kind, "one-x")
    with pytest.raises(RefusedError):
        await worker.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"session_id": "forged"}])
    assert [denial.describe() for denial in module.denials] == [
        "module `one-x` may not set `default fields`: every module's events carry them, and the orchestrator sets them"
    ]
    assert await _carried(hosted) == {"session_id": "s"}


async def test_an_orchestrators_fields_lie_over_the_applications(hosted: Hosted) -> None:
    hosted.coordinator.hooks.set_default_fields(session_id="s", parent_id=None, tenant="t", turn_id="none yet")
    _, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"session_id": "s", "turn_id": "7"}])
    assert await _carried(hosted) == {"session_id": "s", "tenant": "t", "turn_id": "7"}
    hosted.coordinator.hooks.set_default_fields(session_id="s", parent_id=None, tenant="u")
    assert await _carried(hosted) == {"session_id": "s", "tenant": "u", "turn_id": "7"}
    await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"session_id": "s", "parent_id": None}])
    assert await _carried(hosted) == {"session_id": "s", "parent_id": None, "tenant": "u"}


async def test_default_fields_go_with_the_worker_that_set_them(hosted: Hosted) -> None:
    hosted.coordinator.hooks.set_default_fields(session_id="s", tenant="t")
    module, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"turn_id": "7"}])
    module.supervisor.die()
    await until(lambda: not hosted.has_workers)
    assert await _carried(hosted) == {"session_id": "s", "tenant": "t"}


async def test_default_fields_are_json_and_small(hosted: Hosted) -> None:
    _, loop = await hosted.start("orchestrator", "loop-x")
    await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"turn": 1}])
    with pytest.raises(RuntimeError, match="JSON"):
        await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"turn": float("nan")}])
    with pytest.raises(OverLimitError, match="every event carries them"):
        await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"turn": "x" * 4096}])
    with pytest.raises(ValueError, match="each event says by itself"):
        await loop.ask(0, HostMethod.SET_DEFAULT_FIELDS, [{"visibility": "internal"}])
    assert await _carried(hosted) == {"turn": 1}
