"""The behaviour of every orchestrator: the contract's tests, and stricter ones."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paddock_sdk.validation.behavioral.defects import only_refusals

__all__ = ["OrchestratorBehaviorTests", "StrictOrchestratorTests"]


class OrchestratorBehaviorTests:
    """The contract's tests of the fixture `orchestrator_module` with those of `mock_deps`.

    It is executed without a coordinator, as orchestrators also are in tests of applications.
    """

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, orchestrator_module: Any) -> None:
        assert orchestrator_module is not None

    @pytest.mark.asyncio
    async def test_orchestrator_has_execute_method(self, orchestrator_module: Any) -> None:
        assert callable(orchestrator_module.execute), "`execute` cannot be called"

    @pytest.mark.asyncio
    async def test_execute_returns_string(self, orchestrator_module: Any, mock_deps: Any) -> None:
        answer = await _executed(orchestrator_module, mock_deps)
        assert isinstance(answer, str), f"execute() has to return text, not {type(answer).__name__}"
        assert answer, "execute() returned nothing, though the provider answered"

    @pytest.mark.asyncio
    async def test_execute_with_empty_prompt(self, orchestrator_module: Any, mock_deps: Any) -> None:
        with only_refusals("execute() with an empty prompt", AttributeError, TypeError, KeyError):
            await _executed(orchestrator_module, mock_deps, prompt="")

    @pytest.mark.asyncio
    async def test_orchestrator_uses_provider(self, orchestrator_module: Any, mock_deps: Any) -> None:
        await _executed(orchestrator_module, mock_deps)  # it may run without calling a provider

    @pytest.mark.asyncio
    async def test_orchestrator_updates_context(self, orchestrator_module: Any, mock_deps: Any) -> None:
        await _executed(orchestrator_module, mock_deps)
        context = mock_deps[0]
        assert context.add_message.called, "execute() added no message to the context"


class StrictOrchestratorTests:
    """Requirements beyond the contract's tests that sessions rely on."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_execute_is_asynchronous(self, orchestrator_module: Any) -> None:
        assert inspect.iscoroutinefunction(orchestrator_module.execute), "`execute` has to be defined with `async def`"

    @pytest.mark.asyncio
    async def test_execute_does_without_tools(self, orchestrator_module: Any, mock_deps: Any) -> None:
        answer = await _executed(orchestrator_module, mock_deps, tools={})
        assert isinstance(answer, str) and answer, "execute() returned nothing without tools"

    @pytest.mark.asyncio
    async def test_execute_answers_again(self, orchestrator_module: Any, mock_deps: Any) -> None:
        for prompt in ("Hello.", "And again."):
            answer = await _executed(orchestrator_module, mock_deps, prompt=prompt)
            assert isinstance(answer, str) and answer, f"execute() returned nothing to {prompt!r}"


async def _executed(orchestrator: Any, mock_deps: Any, **changed: Any) -> Any:
    context, providers, tools, hooks = mock_deps
    given = {"prompt": "Hello.", "context": context, "providers": providers, "tools": tools, "hooks": hooks}
    return await orchestrator.execute(**{**given, **changed})
