"""What every orchestrator does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

__all__ = ["OrchestratorBehaviorTests"]


class OrchestratorBehaviorTests:
    """Tests of the fixture `orchestrator_module` with those of `mock_deps`: a context, providers, tools and hooks.

    It is executed without a coordinator, as orchestrators also are in tests of applications.
    """

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_mounts_an_orchestrator(self, orchestrator_module: Any) -> None:
        assert orchestrator_module is not None

    @pytest.mark.asyncio
    async def test_execute_is_asynchronous(self, orchestrator_module: Any) -> None:
        assert callable(orchestrator_module.execute), "`execute` cannot be called"
        assert inspect.iscoroutinefunction(orchestrator_module.execute), "`execute` has to be defined with `async def`"

    @pytest.mark.asyncio
    async def test_execute_returns_text(self, orchestrator_module: Any, mock_deps: Any) -> None:
        context, providers, tools, hooks = mock_deps
        answer = await orchestrator_module.execute(
            prompt="Hello.", context=context, providers=providers, tools=tools, hooks=hooks
        )
        assert isinstance(answer, str), f"execute() has to return text, not {type(answer).__name__}"

    @pytest.mark.asyncio
    async def test_execute_returns_an_answer(self, orchestrator_module: Any, mock_deps: Any) -> None:
        context, providers, tools, hooks = mock_deps
        answer = await orchestrator_module.execute(
            prompt="Hello.", context=context, providers=providers, tools=tools, hooks=hooks
        )
        assert answer, "execute() returned nothing, though the provider answered"

    @pytest.mark.asyncio
    async def test_execute_does_without_tools(self, orchestrator_module: Any, mock_deps: Any) -> None:
        context, providers, _, hooks = mock_deps
        answer = await orchestrator_module.execute(
            prompt="Hello.", context=context, providers=providers, tools={}, hooks=hooks
        )
        assert isinstance(answer, str) and answer, "execute() returned nothing without tools"

    @pytest.mark.asyncio
    async def test_execute_answers_again(self, orchestrator_module: Any, mock_deps: Any) -> None:
        context, providers, tools, hooks = mock_deps
        for prompt in ("Hello.", "And again."):
            answer = await orchestrator_module.execute(
                prompt=prompt, context=context, providers=providers, tools=tools, hooks=hooks
            )
            assert isinstance(answer, str) and answer, f"execute() returned nothing to {prompt!r}"
