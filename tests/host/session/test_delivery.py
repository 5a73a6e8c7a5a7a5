"""Events that a module emits to handlers of others, which go on without a task while handlers let them pass."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.rpc.marshal import Marshaller
from paddock.session.module import HostedModule
from paddock.session.proxies.event_message import event_message, event_of, unchanged
from paddock_sdk.contract import events
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol import Kind, LocalProtocolError
from paddock_sdk.protocol.frames import MAX_DEPTH
from paddock_sdk.protocol.methods import HostMethod
from support.rows import each_row

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted

_PASSING = (None, HookResult(), HookResult(action="continue"))


def _nested(levels: int) -> Any:
    return {"a": _nested(levels - 1)} if levels else {}


async def _hooks(hosted: Hosted, *, number: int = 2, event: str = "news") -> list[ScriptedWorker]:
    workers = []
    for priority in range(number):
        _, hook = await hosted.start("hook", f"hooks-{priority}")
        await hook.ask(0, HostMethod.REGISTER, [event, priority, f"handler {priority}", hook.function(7)])
        workers.append(hook)
    return workers


async def _emit(hosted: Hosted, data: Any, event: str = "news") -> tuple[ScriptedWorker, int]:
    _, emitter = await hosted.start("orchestrator", "loop-x")
    return emitter, emitter.request(0, HostMethod.EMIT, [event, data])


async def _said(hook: ScriptedWorker, answer: object) -> dict[str, Any]:
    """Return what the next event brings to a handler, which answers it."""
    request = await hook.request_from_host()
    hook.respond(request.id, answer)
    ((_, data), _) = hook.value(request)
    return dict(data)


# -- the messages ------------------------------------------------------------------------------


@each_row(
    "data",
    [
        {},
        {"delta": "a few words, ", "sequence": 3},
        {"minus": -1, "text": "ÿ", "nested": [{"deep": [1.5, None, True]}]},
        {"surrogate": "\ud800"},
        {"large": "x" * 300},
        {"large": "x" * 5000},
        _nested(MAX_DEPTH - 6),
        ["no", "mapping"],
        "text",
    ],
    ids=lambda data: str(data)[:20].encode("ascii", "replace").decode(),
)
@each_row("event", ["news", "neuigkeiten:größe"])
async def test_messages_are_the_bytes_of_the_whole_value(data: Any, event: str) -> None:
    values, payload = Marshaller(), Payload.of(data)
    assert event_message(values, event, payload) == values.encode([[event, payload.shared], {}])
    shown = payload.shared if payload.is_mapping else {}
    assert unchanged(values, payload) == values.encode(HookResult(action="continue", data=shown))


async def test_a_message_over_a_cap_is_refused_like_any_other() -> None:
    values = Marshaller()
    payload = Payload.of(_nested(MAX_DEPTH - 1))
    with pytest.raises(LocalProtocolError, match="deeper"):
        event_message(values, "news", payload)


# -- handlers that let it pass -----------------------------------------------------------------


@pytest.mark.parametrize("answer", _PASSING, ids=repr)
async def test_handlers_that_let_an_event_pass_are_asked_in_order(hosted: Hosted, answer: object) -> None:
    first, second = await _hooks(hosted)
    hosted.coordinator.hooks.set_default_fields(session_id="the-session")
    emitter, emitted = await _emit(hosted, {"number": 1})
    asked = await first.request_from_host()
    assert not second.heard(Kind.REQUEST)
    first.respond(asked.id, answer)
    data = await _said(second, answer)
    assert data.pop("timestamp")
    assert data == {"number": 1, "session_id": "the-session"}
    result = await emitter.answer(emitted)
    assert (result.action, result.data["number"], result.data["session_id"]) == ("continue", 1, "the-session")


async def test_an_event_that_passes_takes_no_task(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    (hook,) = await _hooks(hosted, number=1)
    emitter, _ = await _emit(hosted, {})
    await _said(hook, None)
    tasks: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(hosted.router.tasks, "start", tasks.append)
        emitted = emitter.request(0, HostMethod.EMIT, ["news", {}])
        await _said(hook, None)
        assert (await emitter.answer(emitted)).action == "continue"
    assert tasks == []


# -- those that do not -------------------------------------------------------------------------


async def test_what_a_later_handler_changes_is_what_follows_it(hosted: Hosted) -> None:
    first, second, third = await _hooks(hosted, number=3)
    emitter, emitted = await _emit(hosted, {"number": 1})
    await _said(first, None)
    await _said(second, HookResult(action="modify", data={"number": 2}))
    assert await _said(third, None) == {"number": 2}
    result = await emitter.answer(emitted)
    assert (result.action, result.data) == ("continue", {"number": 2})


async def test_a_later_handler_that_denies_ends_the_event(hosted: Hosted) -> None:
    first, second, third = await _hooks(hosted, number=3)
    emitter, emitted = await _emit(hosted, {})
    await _said(first, None)
    await _said(second, {"action": "deny", "reason": "no"})
    assert (await emitter.answer(emitted)).reason == "no"
    assert not third.heard(Kind.REQUEST)


async def test_a_handler_of_the_application_is_asked_in_its_place(hosted: Hosted) -> None:
    first, second = await _hooks(hosted)
    heard: list[str] = []
    hosted.coordinator.hooks.register("news", lambda event, data: heard.append(event), priority=0, name="own")
    emitter, emitted = await _emit(hosted, {})
    await _said(first, None)
    request = await second.request_from_host()
    assert heard == ["news"]
    second.respond(request.id)
    assert (await emitter.answer(emitted)).action == "continue"


@pytest.mark.parametrize(("event", "action"), [("news", "continue"), (events.TOOL_PRE, "deny")])
async def test_a_handler_that_dies_over_an_event_is_answered_for(hosted: Hosted, event: str, action: str) -> None:
    (hook,) = await _hooks(hosted, number=1, event=event)
    emitter, emitted = await _emit(hosted, {}, event)
    await hook.request_from_host()
    _module(hosted, "hooks-0").supervisor.die()  # type: ignore[attr-defined]
    assert (await emitter.answer(emitted)).action == action


# -- what is given up --------------------------------------------------------------------------


async def test_a_cancelled_event_is_given_up_and_asks_no_further_handler(hosted: Hosted) -> None:
    first, second = await _hooks(hosted)
    emitter, emitted = await _emit(hosted, {})
    request = await first.request_from_host()
    emitter.write(emitter.connection.send_cancel(emitted))
    assert (await first.take(Kind.CANCEL)).id == request.id
    first.respond(request.id)
    await first.round_trip()
    await emitter.round_trip()
    assert not second.heard(Kind.REQUEST)
    assert not _anybody_waits(hosted)


async def test_what_is_read_for_an_emitter_is_owed_by_it_alone(hosted: Hosted) -> None:
    (hook,) = await _hooks(hosted, number=1)
    _, emitter = await hosted.start("orchestrator", "loop-x")
    answers = _module(hosted, "loop-x").peer.answers
    answers.at_once, answers.per_second = 0.0, 100.0
    emitted = emitter.request(0, HostMethod.EMIT, ["news", {}])
    await _said(hook, None)
    await hook.round_trip()
    assert not [frame for frame in emitter.heard(Kind.RESPONSE) if frame.id == emitted], "it waits for what it owes"
    assert (await emitter.answer(emitted)).action == "continue"


def _module(hosted: Hosted, name: str) -> HostedModule:
    return next(module for module in hosted.modules.all if module.name == name)


def _anybody_waits(hosted: Hosted) -> bool:
    """Whether any worker still waits for the host."""
    return any(module.peer.incoming for module in hosted.modules.all)


@each_row(
    ("message", "event"),
    [
        (["tool:pre", {"a": "x" * 5000}], "tool:pre"),
        (["e" * 200, {}], "e" * 200),
        (["ünï", 1], "ünï"),
        ([], None),
        (["alone"], None),
        ([b"\xff" * 2000, {}], None),
    ],
    ids=repr,
)
def test_the_event_is_read_in_a_message_to_a_handler_alone(message: list[Any], event: str | None) -> None:
    assert event_of(Marshaller().encode([message, {}])) == event
    if event is not None:
        assert event_of(event_message(Marshaller(), event, Payload.of(message[1]))) == event
