"""What becomes of calls into modules that die: the table of failures, without any process."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from paddock.errors import LaunchError, ModuleDiedError, ModuleLoadError, QuarantinedError
from paddock.rpc import channel
from paddock.workers.exit_report import ExitReason
from paddock_sdk.contract.boundary_errors import ModuleGoneError, OverLimitError
from paddock_sdk.contract.llm_errors import ProviderUnavailableError
from paddock_sdk.contract.models import HookResult, ToolResult
from paddock_sdk.protocol import Flag, Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC

from ..rpc.scripted_worker import ScriptedWorker, until
from .conftest import Hosted, changes, mounts, tool
from .test_journal import _MEMBERS, _message, context


def _provider(worker: ScriptedWorker) -> Any:
    return worker.own(5, {"complete": ASYNC, "list_models": ASYNC})


_LOOP = mounts("orchestrator", None, lambda worker: worker.own(5, {"execute": ASYNC}))


def _block_the_loop() -> None:
    """Do as an application that computes on the loop, for longer than an ended process's connection is kept here."""
    time.sleep(0.13)


async def _call_and_die(hosted: Hosted, module: Any, member: Any) -> Any:
    pending = asyncio.ensure_future(member())
    await module.supervisor.worker.request_from_host()
    module.supervisor.die()
    return (await asyncio.gather(pending, return_exceptions=True))[0]


async def test_a_tools_call_ends_as_a_failed_result_with_the_report(hosted: Hosted) -> None:
    module, _ = await hosted.start("tool", "tool-x", tool("echo"))
    echo = hosted.coordinator.get("tools", "echo")
    result = await _call_and_die(hosted, module, lambda: echo.execute({}))
    assert isinstance(result, ToolResult) and not result.success
    assert result.error is not None and result.error["type"] == "ModuleDiedError"
    assert result.error["report"]["reason"] == "exited"
    assert result.error["report"]["call_in_flight"] == "execute"
    assert module.reports[-1].call_in_flight == "execute"


async def test_a_providers_call_fails_as_one_that_may_be_tried_again(hosted: Hosted) -> None:
    module, _ = await hosted.start("provider", "provider-x", mounts("providers", "mock", _provider))
    mock = hosted.coordinator.get("providers", "mock")
    error = await _call_and_die(hosted, module, lambda: mock.complete({}))
    assert isinstance(error, ProviderUnavailableError)
    assert error.retryable and error.provider == "provider-x"


async def test_an_orchestrators_turn_fails_with_the_death(hosted: Hosted) -> None:
    module, _ = await hosted.start("orchestrator", "loop-x", _LOOP)
    loop = hosted.coordinator.get("orchestrator")
    error = await _call_and_die(hosted, module, lambda: loop.execute(prompt="hello", context=object()))
    assert isinstance(error, ModuleDiedError)
    assert error.report.reason is ExitReason.EXITED


async def test_an_orchestrator_is_sent_the_prompt_alone(hosted: Hosted) -> None:
    _, worker = await hosted.start("orchestrator", "loop-x", _LOOP)
    turn = asyncio.ensure_future(
        hosted.coordinator.get("orchestrator").execute(prompt="hello", context=object(), hooks=object())
    )
    request = await worker.request_from_host()
    assert worker.value(request) == [[], {"prompt": "hello"}]
    assert request.handles == ()
    worker.respond(request.id, "hi")
    assert await turn == "hi"


async def test_an_orchestrator_that_cannot_execute_is_named(hosted: Hosted) -> None:
    await hosted.start("orchestrator", "loop-x", mounts("orchestrator", None, lambda worker: worker.own(5)))
    with pytest.raises(ModuleLoadError, match="no `execute`"):
        await hosted.coordinator.get("orchestrator").execute(prompt="hello")


async def test_the_next_call_restarts_a_dead_module_and_its_mounts(hosted: Hosted) -> None:
    module, _ = await hosted.start("tool", "tool-x", tool("echo", colour="red"))
    _, onlooker = await hosted.start("orchestrator", "loop-x")
    ((_, _, shown),) = changes(onlooker, MirrorSection.MOUNTED)
    echo = hosted.coordinator.get("tools", "echo")
    await hosted.die(module)
    calls = [asyncio.ensure_future(echo.execute({"number": number})) for number in range(2)]
    theirs = onlooker.call_object(shown.id, 0, {"number": 2})
    worker = await hosted.mount_next(module, tool("echo", id=9))
    for _ in range(3):
        request = await worker.request_from_host()
        assert request.target == 9
        worker.respond(request.id, worker.value(request)[0][0]["number"])
    assert await asyncio.gather(*calls) == [0, 1]
    assert await onlooker.answer(theirs) == 2
    assert hosted.coordinator.get("tools", "echo") is echo
    assert module.supervisor.restarts == 1
    await onlooker.round_trip()
    assert changes(onlooker, MirrorSection.MOUNTED) == [], "it is the same mount as before"


async def test_what_stays_dead_is_answered_for_by_kind(hosted: Hosted) -> None:
    module, _ = await hosted.start("tool", "tool-x", tool("echo"))
    other, _ = await hosted.start("provider", "provider-x", mounts("providers", "mock", _provider))
    echo, mock = hosted.coordinator.get("tools", "echo"), hosted.coordinator.get("providers", "mock")
    for dead in (module, other):
        dead.supervisor.die()  # type: ignore[attr-defined]
        await until(lambda dead=dead: not dead.is_running)
        dead.supervisor.on_start = QuarantinedError(dead.name, ended="5 times", lifts="/lift")  # type: ignore[attr-defined]
    result = await echo.execute({})
    assert not result.success and result.error["type"] == "QuarantinedError"
    with pytest.raises(ProviderUnavailableError, match="quarantined"):
        await mock.complete({})


async def test_an_object_of_an_earlier_life_is_gone_for_good(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x", tool("echo"))
    await worker.ask(0, HostMethod.REGISTER_CAPABILITY, worker.own(9, {"look": ASYNC}), head="eyes")
    eyes = hosted.coordinator.get_capability("eyes")
    await hosted.die(module)
    looking = asyncio.ensure_future(eyes.look())
    await hosted.mount_next(module, tool("echo"))
    with pytest.raises(ModuleGoneError, match="earlier life"):
        await looking


# -- the context -------------------------------------------------------------------------------


async def _context_at(hosted: Hosted) -> tuple[Any, Any, ScriptedWorker]:
    module, worker = await hosted.start("context", "context-x", context([]))
    return module, hosted.coordinator.get("context"), worker


def _number(member: str) -> int:
    return list(_MEMBERS).index(member)


async def _expect(worker: ScriptedWorker, member: str, answer: Any = None) -> Any:
    request = await worker.request_from_host()
    assert request.method == _number(member), f"{list(_MEMBERS)[request.method]} instead of {member}"
    worker.respond(request.id, answer)
    args, _ = worker.value(request)
    return args[0] if args else None


async def test_a_context_comes_back_with_its_messages_and_the_call_is_made_again(hosted: Hosted) -> None:
    module, memory, worker = await _context_at(hosted)
    for number in (1, 2):
        adding = asyncio.ensure_future(memory.add_message(_message(number)))
        await _expect(worker, "add_message")
        await adding
    adding = asyncio.ensure_future(memory.add_message(_message(3)))
    await worker.request_from_host()
    module.supervisor.die()
    worker = await hosted.mount_next(module, context([]))
    await _expect(worker, "get_messages", [])
    assert await _expect(worker, "set_messages") == [_message(1), _message(2)]
    assert await _expect(worker, "add_message") == _message(3)
    await adding
    assert hosted.journal.messages() == [_message(1), _message(2), _message(3)]


async def test_a_message_that_a_context_kept_before_it_died_is_not_added_twice(hosted: Hosted) -> None:
    module, memory, worker = await _context_at(hosted)
    adding = asyncio.ensure_future(memory.add_message(_message(1)))
    await worker.request_from_host()
    module.supervisor.die()
    worker = await hosted.mount_next(module, context([]))
    await _expect(worker, "get_messages", [_message(1)])
    await _expect(worker, "get_messages", [_message(1)])
    await adding
    assert hosted.journal.messages() == [_message(1)]
    await worker.round_trip()
    assert not worker.heard(Kind.REQUEST)


async def test_a_message_is_not_added_twice_when_the_context_cannot_say(hosted: Hosted) -> None:
    module, memory, worker = await _context_at(hosted)
    adding = asyncio.ensure_future(memory.add_message(_message(1)))
    await worker.request_from_host()
    module.supervisor.die()
    worker = await hosted.mount_next(module, context([]))
    for _ in range(2):  # at its return, and for the message
        request = await worker.request_from_host()
        assert request.method == _number("get_messages")
        worker.fail(request.id, OverLimitError("more than one message holds"))
    with pytest.raises(ModuleDiedError):
        await adding
    assert hosted.journal.messages() == []


async def test_a_context_that_dies_over_one_call_again_and_again_fails_it(hosted: Hosted) -> None:
    module, memory, worker = await _context_at(hosted)
    reading = asyncio.ensure_future(memory.get_messages_for_request())
    for life in range(3):
        request = await worker.request_from_host()
        assert request.method == _number("get_messages_for_request")
        module.supervisor.die()
        if life < 2:
            worker = await hosted.mount_next(module, context([]))
            await _expect(worker, "get_messages", [])
    with pytest.raises(ModuleDiedError):
        await reading


async def test_a_message_is_journaled_though_its_orchestrator_has_died(hosted: Hosted) -> None:
    _, _, worker = await _context_at(hosted)
    loop, asking = await hosted.start("orchestrator", "loop-x")
    ((_, _, shown),) = changes(asking, MirrorSection.MOUNTED)
    asking.call_object(shown.id, _number("add_message"), _message(1))
    request = await worker.request_from_host()
    await hosted.die(loop)
    worker.respond(request.id)
    await until(lambda: hosted.journal.messages() == [_message(1)])
    assert not worker.heard(Kind.CANCEL)


async def test_a_turn_that_was_given_up_is_over_when_its_orchestrator_says_so(hosted: Hosted) -> None:
    _, worker = await hosted.start("orchestrator", "loop-x", _LOOP)
    turn = asyncio.ensure_future(hosted.coordinator.get("orchestrator").execute(prompt="hello"))
    request = await worker.request_from_host()
    turn.cancel()
    await worker.take(Kind.CANCEL)
    over = asyncio.ensure_future(hosted.modules.turn_ended())
    await worker.round_trip()
    assert not over.done()
    worker.fail(request.id, asyncio.CancelledError())
    await over


async def test_only_the_context_itself_is_journaled(hosted: Hosted) -> None:
    async def mount(worker: ScriptedWorker) -> None:
        await context([])(worker)
        await worker.ask(0, HostMethod.REGISTER_CAPABILITY, worker.own(6, {"add_message": ASYNC}), head="side")

    _, worker = await hosted.start("context", "context-x", mount)
    adding = asyncio.ensure_future(hosted.coordinator.get_capability("side").add_message(_message(1)))
    worker.respond((await worker.request_from_host()).id)
    await adding
    assert hosted.journal.messages() == []


# -- hooks -------------------------------------------------------------------------------------


def _handler(event: str) -> Any:
    async def mount(worker: ScriptedWorker) -> None:
        await worker.ask(0, HostMethod.REGISTER, [event, 0, "guard", worker.function(7)])

    return mount


@pytest.mark.parametrize(
    ("event", "on_failure", "action"),
    [
        ("tool:pre", None, "deny"),
        ("prompt:submit", None, "deny"),
        ("tool:post", None, "continue"),
        ("news", None, "continue"),
        ("tool:pre", "continue", "continue"),
        ("tool:post", "deny", "deny"),
    ],
)
async def test_a_handler_that_dies_counts_as_its_policy_says(
    event: str, on_failure: str | None, action: str, hosted: Hosted
) -> None:
    entry = {} if on_failure is None else {"on_failure": on_failure}
    module, worker = await hosted.start("hook", "hooks-x", _handler(event), **entry)
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit(event, {}))
    await worker.request_from_host()
    module.supervisor.die()  # type: ignore[attr-defined]
    result = await emitted
    assert result.action == action
    if action == "deny":
        assert "hooks-x" in (result.reason or "")


@pytest.mark.parametrize(
    "error",
    [
        QuarantinedError("hooks-x", ended="5 times", lifts="/lift"),
        LaunchError("hooks-x", "launch", "no more processes"),
        ModuleLoadError("hooks-x", "mount", "ValueError: not this time"),
    ],
    ids=["quarantined", "not launched", "not mounted"],
)
async def test_a_gate_stays_shut_when_its_guard_cannot_be_brought_back(error: Exception, hosted: Hosted) -> None:
    module, _ = await hosted.start("hook", "hooks-x", _handler("tool:pre"))
    await hosted.die(module)
    module.supervisor.on_start = error  # type: ignore[attr-defined]
    assert (await hosted.coordinator.hooks.emit("tool:pre", {})).action == "deny"


async def test_a_gate_stays_shut_when_its_guard_comes_back_without_its_handler(hosted: Hosted) -> None:
    module, _ = await hosted.start("hook", "hooks-x", _handler("tool:pre"))
    await hosted.die(module)
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit("tool:pre", {}))
    await hosted.mount_next(module)
    assert (await emitted).action == "deny"
    assert not hosted.coordinator.hooks.has_handlers("tool:pre"), "from now on it does not guard, by its own choice"


async def test_a_guard_that_answers_nonsense_denies(hosted: Hosted) -> None:
    _, worker = await hosted.start("hook", "hooks-x", _handler("tool:pre"))
    result = HookResult()
    result.action = "let me think"  # type: ignore[assignment]
    for nonsense in (result, "yes", {"action": "perhaps"}, 1):
        emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit("tool:pre", {}))
        worker.respond((await worker.request_from_host()).id, nonsense)
        assert (await emitted).action == "deny", nonsense
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit("tool:pre", {}))
    worker.write(worker.connection.send_response((await worker.request_from_host()).id, b"\xc1"))
    assert (await emitted).action == "deny"


async def test_a_guard_that_raises_is_passed_over_as_any_handler_is(hosted: Hosted) -> None:
    _, worker = await hosted.start("hook", "hooks-x", _handler("tool:pre"))
    for error in (ValueError("no"), ModuleGoneError("somebody else is gone")):
        emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit("tool:pre", {}))
        worker.fail((await worker.request_from_host()).id, error)
        assert (await emitted).action == "continue"


async def test_a_gate_stays_shut_when_its_guard_waits_for_the_guarded_call(hosted: Hosted) -> None:
    _, worker = await hosted.start("hook", "hooks-x", _handler("tool:pre"), permissions={"emit": ["tool:pre"]})
    result = await worker.ask(0, HostMethod.EMIT, ["tool:pre", {}], flags=Flag.BLOCKED)
    assert result.action == "deny"


async def test_a_restarted_hooks_handler_keeps_its_place_in_the_order(hosted: Hosted) -> None:
    module, _ = await hosted.start("hook", "hooks-x", _handler("news"))
    order: list[str] = []
    hosted.coordinator.hooks.register("news", lambda event, data: order.append("application"), name="late")
    await hosted.die(module)
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit("news", {}))
    worker = await hosted.mount_next(module, _handler("news"))
    request = await worker.request_from_host()
    assert order == []
    worker.respond(request.id)
    await emitted
    assert order == ["application"]
    assert hosted.coordinator.hooks.list_handlers("news") == {"news": ["guard", "late"]}


# -- starting ----------------------------------------------------------------------------------


async def _starting(hosted: Hosted, kind: str = "tool", **entry: Any) -> tuple[Any, asyncio.Task[Any], ScriptedWorker]:
    """Begin a start; return the module, the start, and its worker, which has said nothing yet."""
    module: Any = hosted.add(kind, f"{kind}-x", **entry)
    starting = asyncio.ensure_future(module.start())
    await until(lambda: module.supervisor.workers)
    return module, starting, module.supervisor.worker


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ({"mounted": False, "stage": "import", "error": ImportError("no such package")}, "no such package"),
        ({"mounted": False, "stage": "lookup", "error": AttributeError("no function `mount`")}, "no function `mount`"),
        ({"mounted": False, "stage": "mount", "error": KeyError("api_key")}, "api_key"),
        ({"mounted": "perhaps"}, "a malformed answer"),
        (None, "a malformed answer"),
    ],
)
async def test_a_module_that_cannot_be_mounted_is_ended_and_says_why(outcome: Any, said: str, hosted: Hosted) -> None:
    module, starting, worker = await _starting(hosted)
    await worker.greet()
    worker.respond((await worker.request_from_host()).id, outcome)
    with pytest.raises(ModuleLoadError, match=said):
        await starting
    await until(lambda: not module.is_running)
    assert [report.reason for report in module.reports] == [ExitReason.START]


async def test_a_module_that_speaks_another_protocol_is_refused(hosted: Hosted) -> None:
    _, starting, worker = await _starting(hosted)
    worker.hello(protocol=99)
    with pytest.raises(ModuleLoadError, match="speaks protocol 99"):
        await starting


@pytest.mark.parametrize("moment", ["before its greeting", "while it mounts"])
async def test_a_module_that_dies_at_its_start_is_reported_with_its_end(moment: str, hosted: Hosted) -> None:
    module, starting, worker = await _starting(hosted)
    if moment == "while it mounts":
        await worker.greet()
        await worker.request_from_host()
    module.supervisor.die()  # type: ignore[attr-defined]
    with pytest.raises(ModuleLoadError, match="exited"):
        await starting


async def test_a_module_that_takes_too_long_to_start_is_ended(hosted: Hosted) -> None:
    module = hosted.add("tool", "tool-x", limits={"start_max": "50ms"})
    with pytest.raises(ModuleLoadError, match=r"not mounted within 0\.05 s"):
        await module.start()
    assert [report.reason for report in module.reports] == [ExitReason.TIMEOUT]


async def test_a_start_that_is_given_up_leaves_no_process(hosted: Hosted) -> None:
    module, starting, worker = await _starting(hosted)
    await worker.greet()
    await worker.request_from_host()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await worker.cut_off()
    assert module.supervisor.process is None


async def test_a_call_that_overstays_ends_the_module_with_its_limit(hosted: Hosted) -> None:
    module, worker = await hosted.start("tool", "tool-x", tool("echo"), limits={"runtime_max": "50ms"})
    pending = asyncio.ensure_future(hosted.coordinator.get("tools", "echo").execute({}))
    await worker.request_from_host()
    result = await pending
    assert result.error["report"]["reason"] == "timeout"
    assert result.error["report"]["limit"]["name"] == "runtime_max"
    assert module.reports[-1].call_in_flight == "execute"


async def test_a_call_ends_with_the_process_though_another_keeps_its_socket(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_LAST_LOOK_SECONDS", 0.01)
    module, worker = await hosted.start("tool", "tool-x", tool("echo"))
    with worker.copy_of_its_end():
        pending = asyncio.ensure_future(hosted.coordinator.get("tools", "echo").execute({}))
        await worker.request_from_host()
        module.supervisor.die()  # type: ignore[attr-defined]
        result = await pending
    assert result.error["report"]["reason"] == "exited"


async def test_an_answer_is_read_though_the_loop_is_blocked_after_the_end(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_LAST_LOOK_SECONDS", 0.01)
    module, worker = await hosted.start("tool", "tool-x", tool("echo"))
    pending = asyncio.ensure_future(hosted.coordinator.get("tools", "echo").execute({}))
    request = await worker.request_from_host()
    worker.respond(request.id, ToolResult(output="x" * 150_000))  # is read in more than one turn of the loop
    assert worker.has_sent_all, "the socket holds the whole answer"
    module.supervisor.die()  # type: ignore[attr-defined]
    _block_the_loop()
    result = await pending
    assert result.output == "x" * 150_000


@pytest.mark.costly
async def test_the_time_to_start_stands_while_a_module_waits_for_others(hosted: Hosted) -> None:
    """What a tool contributes late, or never, is no fault of the hook that asks all modules."""
    _, tool_worker = await hosted.start("tool", "tool-late")
    await tool_worker.ask(0, HostMethod.REGISTER_CONTRIBUTOR, ["colours", "late", tool_worker.function(9)])
    _, starting, worker = await _starting(hosted, "hook", limits={"start_max": "500ms"})
    await worker.greet()
    mounting = await worker.request_from_host()
    asked = worker.request(0, HostMethod.COLLECT_CONTRIBUTIONS, ["colours"], parent=mounting.id)
    contributing = await tool_worker.request_from_host()
    late = asyncio.get_running_loop().time() + 0.6
    await until(lambda: asyncio.get_running_loop().time() > late)
    assert not starting.done()
    tool_worker.respond(contributing.id, ["red"])
    assert await worker.answer(asked) == [["red"]]
    with pytest.raises(ModuleLoadError, match=r"not mounted within 0\.5 s"):  # of its own time
        await starting
