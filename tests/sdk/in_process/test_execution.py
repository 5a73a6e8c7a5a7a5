"""The two steps of a turn that code calls without a session."""

from __future__ import annotations

from typing import Any

import pytest
from amplifier_core._session_exec import emit_raw_field_if_configured, run_orchestrator

from paddock_sdk.testing import MockContextManager, MockCoordinator


@pytest.mark.difference("an orchestrator gets the live tables of tools and providers, even if they are empty")
async def test_an_orchestrator_sees_the_first_tool_that_is_mounted_in_its_turn(coordinator: MockCoordinator) -> None:
    class Loop:
        async def execute(self, tools: Any, coordinator: Any, **given: Any) -> Any:
            await coordinator.mount("tools", object(), name="late")
            return list(tools)

    coordinator.mount("orchestrator", Loop())
    coordinator.mount("context", MockContextManager())
    assert await run_orchestrator(coordinator, "hi") == ["late"]


@pytest.mark.difference("`run_orchestrator` without an orchestrator or a context raises RuntimeError")
async def test_the_orchestrator_gets_what_a_session_gives_it(coordinator: MockCoordinator) -> None:
    class Loop:
        async def execute(self, **given: Any) -> Any:
            return given

    with pytest.raises(RuntimeError, match="No orchestrator mounted"):
        await run_orchestrator(coordinator, "hi")
    coordinator.mount("orchestrator", Loop())
    with pytest.raises(RuntimeError, match="No context manager mounted"):
        await run_orchestrator(coordinator, "hi")
    context = MockContextManager()
    coordinator.mount("context", context)
    assert await run_orchestrator(coordinator, "hi") == {
        "prompt": "hi",
        "context": context,
        "providers": coordinator.mount_points["providers"],
        "tools": coordinator.mount_points["tools"],
        "hooks": coordinator.hooks,
        "coordinator": coordinator,
    }


@pytest.mark.difference("an orchestrator without a parameter `coordinator` is called without it")
async def test_an_orchestrator_without_a_coordinator_runs(coordinator: MockCoordinator) -> None:
    class Loop:
        async def execute(self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any) -> str:
            return prompt

    coordinator.mount("orchestrator", Loop())
    coordinator.mount("context", MockContextManager())
    assert await run_orchestrator(coordinator, "hi") == "hi"


@pytest.mark.parametrize(
    ("session", "emitted"),
    [({"raw": True, "token": "hunter2"}, [{"raw": True, "token": "[REDACTED]"}]), ({"raw": False}, []), ({}, [])],
)
async def test_the_configuration_is_logged_without_its_secrets(
    coordinator: MockCoordinator, session: dict[str, Any], emitted: list[Any]
) -> None:
    heard: list[Any] = []
    coordinator.hooks.register("session:config", lambda event, data: heard.append(data))
    await emit_raw_field_if_configured(coordinator, {"session": session}, "s1", "session:start")
    assert [(data["session_id"], data["raw"]["session"]) for data in heard] == [("s1", one) for one in emitted]
