"""What becomes of a session when one of its modules dies, hangs or raises: the table of failures, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import called, context_code, entry_of, loop_code, tool_code
from integration.session_internals import kill
from paddock.errors import ModuleDiedError
from paddock.workers.exit_report import ExitReason

_FRAGILE = """
    import asyncio, os, signal, time

    from amplifier_core.models import ToolResult

    LIFE = time.monotonic_ns()  # of no other process that this module has

    class Fragile:
        name = "fragile"
        description = "fails in the way it is told to"

        async def execute(self, input):
            how = input.get("how")
            if how == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            elif how == "exit":
                os._exit(7)
            elif how == "raise":
                raise LookupError("no such thing")
            elif how == "raise exit":
                raise SystemExit(3)
            elif how == "wrong type":
                return "just text"
            elif how == "not sendable":
                return ToolResult(output=object())
            elif how == "hang":
                await asyncio.sleep(3600)
            elif how == "spin":
                while True:
                    pass
            return ToolResult(output=LIFE)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Fragile())
"""


def _fragile(**limits: Any) -> dict[str, Any]:
    return entry_of("tool-fragile", _FRAGILE, limits=limits)


async def test_a_tool_that_answers_badly_lives_on_and_one_that_dies_works_again(open_session: OpenSession) -> None:
    async with open_session(tools=[_fragile()]) as session:

        async def call(how: str) -> dict[str, Any]:
            return await called(session, "fragile", how=how)

        def restarts() -> int:
            return next(module.restarts for module in session.modules if module.kind == "tool")

        first = await call("work")
        for how, kind, said in (
            ("raise", "LookupError", "no such thing"),
            ("raise exit", "SystemExit", "3"),
            ("wrong type", "TypeError", "`str`"),
            ("not sendable", "CannotCrossError", "object"),
        ):
            failed = await call(how)
            assert (failed["success"], failed["error"]["type"]) == (False, kind)
            assert said in failed["error"]["message"]
        assert await call("work") == first and restarts() == 0

        reasons = {"segfault": (ExitReason.SIGNALLED, "SIGSEGV"), "exit": (ExitReason.EXITED, "code 7")}
        for died_before, (how, (reason, said)) in enumerate(reasons.items()):
            before, died, again = [await call(one) for one in ("work", how, "work")]
            assert not died["success"]
            assert died["error"]["type"] == "ModuleDiedError"
            assert said in died["error"]["message"]
            assert died["error"]["report"]["reason"] == reason.value
            assert died["error"]["report"]["call_in_flight"] == "execute"
            assert again["success"] and again["output"] != before["output"]
            assert restarts() == died_before + 1
        (reports,) = [module.exit_reports for module in session.modules if module.kind == "tool"]
        assert [report.reason for report in reports] == [ExitReason.SIGNALLED, ExitReason.EXITED]

        # One that keeps dying is quarantined, and the session goes on.
        errors = [(await call("exit"))["error"]["type"] for _ in range(4)]
        assert errors == ["ModuleDiedError"] * 3 + ["QuarantinedError"]


async def test_a_tool_that_overstays_is_ended_and_named_with_its_limit(open_session: OpenSession) -> None:
    async with open_session(tools=[_fragile(runtime_max="300ms")]) as session:
        for how in ("hang", "spin"):
            ended, again = [await called(session, "fragile", how=one) for one in (how, "work")]
            assert ended["error"]["report"]["reason"] == "timeout", how
            assert ended["error"]["report"]["limit"]["name"] == "runtime_max"
            assert again["success"]


_WAITER = """
    import asyncio

    from amplifier_core.models import ToolResult

    class Waiter:
        name = "waiter"
        description = "waits for another module, a short time each, again and again"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            for _ in range(input["times"]):
                await self.coordinator.get_capability("short.nap")()
            return ToolResult(output="held")

    async def nap():
        await asyncio.sleep(0.2)

    async def mount(coordinator, config):
        if config.get("naps"):
            coordinator.register_capability("short.nap", nap)
        else:
            await coordinator.mount("tools", Waiter(coordinator))
"""


async def test_tools_that_wait_for_each_other_are_ended_by_call_max(open_session: OpenSession) -> None:
    other = entry_of("tool-waiter", _WAITER, instance_id="other", config={"naps": True})

    async def held(times: int, **limits: Any) -> dict[str, Any]:
        waiter = entry_of("tool-waiter", _WAITER, limits={"runtime_max": "500ms", **limits})
        async with open_session(tools=[{**other, "limits": {"runtime_max": "500ms"}}, waiter]) as session:
            return await called(session, "waiter", times=times)

    assert (await held(6, call_max="none"))["output"] == "held"  # more than twice the time of one module
    ended = await held(10_000, call_max="1s")
    assert ended["error"]["report"]["limit"]["name"] == "call_max"


_GIVER = """
    from amplifier_core.models import ToolResult

    class Giver:
        name = "giver"
        description = "offers a stream without end"

        async def execute(self, input):
            return ToolResult(output="still there")

    async def mount(coordinator, config):
        async def numbers():
            number = 0
            while True:
                number += 1
                yield number

        coordinator.register_capability("giver.numbers", numbers)
        await coordinator.mount("tools", Giver())
"""
_READER = tool_code(
    "reader",
    """
    async for number in coordinator.get_capability("giver.numbers")():
        if number == input["stops_at"]:
            await asyncio.sleep(3600)
        if number == 200:
            return ToolResult(output=number)
    """,
)


async def test_a_reader_that_stops_within_a_stream_is_the_one_that_overstays(open_session: OpenSession) -> None:
    limits = {"runtime_max": "1s"}
    tools = [entry_of(f"tool-{name}", code, limits=limits) for name, code in (("giver", _GIVER), ("reader", _READER))]
    async with open_session(tools=tools) as session:
        read = await called(session, "reader", stops_at=0)
        ended = await called(session, "reader", stops_at=3)
        other = await called(session, "giver")
        reports = {module.module: [report.limit for report in module.exit_reports] for module in session.modules}
    assert read["output"] == 200
    assert ended["error"]["report"]["limit"]["name"] == "runtime_max"
    assert other["output"] == "still there"
    assert [limit.name for limit in reports["tool-reader"] if limit] == ["runtime_max"]
    assert reports["tool-giver"] == []


_GUARD = """
    import os
    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        async def guard(event, data):
            if os.path.exists(config["name"]):
                os._exit(1)
            return HookResult(action="continue")

        coordinator.hooks.register(config["event"], guard, name=config["name"])
"""


async def test_a_dead_hook_counts_as_on_failure_says_and_guards_again(
    open_session: OpenSession, tmp_path: Path
) -> None:
    rows = {
        "one": ("tool:pre", None, "deny"),
        "two": ("prompt:submit", None, "deny"),
        "three": ("tool:post", None, "continue"),
        "four": ("tool:pre", "continue", "continue"),
        "five": ("tool:post", "deny", "deny"),
    }
    entries = [
        entry_of(
            f"hooks-{name}",
            _GUARD,
            config={"event": event, "name": name},
            **{} if on_failure is None else {"on_failure": on_failure},
        )
        for name, (event, on_failure, _) in rows.items()
    ]
    async with open_session(hooks=entries) as session:
        hooks = session.coordinator.hooks
        for name, (event, _, action) in rows.items():
            (tmp_path / "work" / name).touch()
            struck = await hooks.emit(event, {"tool_name": "x"})
            (tmp_path / "work" / name).unlink()
            after = await hooks.emit(event, {"tool_name": "x"})
            assert (struck.action, after.action) == (action, "continue"), name
            assert hooks.list_handlers(event)[event].count(name) == 1, name
        assert [module.restarts for module in session.modules if module.kind == "hook"] == [1] * len(rows)


_BRITTLE_PROVIDER = """
    import os
    from amplifier_core.message_models import ChatResponse, TextBlock
    from amplifier_core.models import ProviderInfo

    class Brittle:
        name = "brittle"

        def get_info(self):
            return ProviderInfo(id="brittle", display_name="Brittle")

        async def list_models(self):
            return []

        async def complete(self, request, **kwargs):
            if request.messages[-1].content == "die":
                os._exit(9)
            return ChatResponse(content=[TextBlock(text="alive")])

        def parse_tool_calls(self, response):
            return []

    async def mount(coordinator, config):
        await coordinator.mount("providers", Brittle())
"""

_ASK_PROVIDER = """
    from amplifier_core.llm_errors import ProviderUnavailableError
    from amplifier_core.message_models import ChatRequest, Message
    request = ChatRequest(messages=[Message(role="user", content=prompt)])
    try:
        response = await providers["brittle"].complete(request)
    except ProviderUnavailableError as error:
        return f"{type(error).__name__} retryable={error.retryable}"
    return response.content[0].text
"""


async def test_a_provider_that_dies_is_unavailable_for_the_moment_only(open_session: OpenSession) -> None:
    async with open_session(
        orchestrator=entry_of("loop-ask", loop_code(_ASK_PROVIDER)),
        providers=[entry_of("provider-brittle", _BRITTLE_PROVIDER)],
    ) as session:
        assert await session.execute("die") == "ProviderUnavailableError retryable=True"
        assert await session.execute("hello") == "alive"


_FORGETFUL_CONTEXT = context_code(
    """
    async def add_message(self, message):
        if os.path.exists("die-before"):
            os.unlink("die-before")
            os._exit(1)
        await super().add_message(message)

    async def get_messages(self):
        if os.path.exists("die-reading"):
            os.unlink("die-reading")
            os._exit(1)
        return await super().get_messages()
    """
)


async def test_a_context_that_dies_comes_back_with_every_message_once(
    open_session: OpenSession, tmp_path: Path
) -> None:
    async with open_session(context=entry_of("context-forgetful", _FORGETFUL_CONTEXT)) as session:
        context = session.coordinator.get("context")
        told: list[dict[str, str]] = []

        async def tell(count: int) -> None:
            for _ in range(count):
                told.append({"role": "user", "content": f"message {len(told)}"})
                await context.add_message(told[-1])

        for moment in ("die-before", "die-reading", "killed"):
            await tell(3)
            if moment == "killed":
                await kill(session, kind="context")
            else:
                (tmp_path / "work" / moment).touch()
            await tell(2)
            assert await context.get_messages() == told, moment
        assert [module.restarts for module in session.modules if module.kind == "context"] == [3]


_DOOMED_LOOP = """
    if prompt == "die":
        await context.add_message({
            "role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "name": "t", "arguments": {}}],
        })
        os._exit(1)
    return "fine"
"""


async def test_a_dead_orchestrator_fails_its_turn_and_leaves_no_open_call(open_session: OpenSession) -> None:
    async with open_session(orchestrator=entry_of("loop-doomed", loop_code(_DOOMED_LOOP))) as session:
        with pytest.raises(ModuleDiedError, match="exited with code 1"):
            await session.execute("die")
        messages = await session.coordinator.get("context").get_messages()
        assert messages[-1]["role"] == "tool" and messages[-1]["tool_call_id"] == "call_1"
        assert await session.execute("live") == "fine"


_LATE = tool_code(
    "patient",
    """
    reply = await coordinator.approval_system.request_approval("Go on?", ["Allow", "Deny"], 60.0, "deny")
    return ToolResult(output=reply)
    """,
)


async def test_the_time_a_module_waits_for_the_host_is_not_its_own(open_session: OpenSession) -> None:
    import asyncio

    class SlowApproval:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            await asyncio.sleep(0.6)  # twice what the tool may run; the passing of time is the subject
            return "Allow"

    async with open_session(
        tools=[entry_of("tool-patient", _LATE, limits={"runtime_max": "300ms"})], approval=SlowApproval()
    ) as session:
        answer = await called(session, "patient")
    assert answer["output"] == "Allow"
