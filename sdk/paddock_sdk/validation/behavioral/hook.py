"""The behaviour of every hook: the contract's tests, and stricter ones."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paddock_sdk.contract.models import HookResult

__all__ = ["HookBehaviorTests", "StrictHookTests"]

_EVENT = "test:event"
_ACTIONS = ("continue", "deny", "modify", "inject_context", "ask_user")
_EVENT_DATA = {"session_id": "test-session", "tool_name": "test_tool", "tool_input": {}, "prompt": "Hello."}

# The registry's message about an invalid answer; no handler uses this text.
_INVALID_ANSWER = "Hook handler returned invalid response"


class HookBehaviorTests:
    """The contract's tests of the fixtures `hook_cleanup` (the result of `mount`) and `coordinator`."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, hook_cleanup: Any, coordinator: Any) -> None:
        assert hook_cleanup is None or callable(hook_cleanup), "what mount() returned cannot be called"

    @pytest.mark.asyncio
    async def test_handler_returns_hook_result(self, coordinator: Any) -> None:
        result = await coordinator.hooks.emit(_EVENT, {"data": "test"})
        assert result is None or isinstance(result, HookResult)

    @pytest.mark.asyncio
    async def test_hook_result_has_valid_action(self, coordinator: Any) -> None:
        result = await coordinator.hooks.emit(_EVENT, {"data": "test"})
        assert result is None or result.action in _ACTIONS, f"there is no action {result.action!r}"

    @pytest.mark.asyncio
    async def test_handler_does_not_crash_on_malformed_data(self, coordinator: Any) -> None:
        await _emit(coordinator, _EVENT, None)

    @pytest.mark.asyncio
    async def test_handler_does_not_crash_on_empty_data(self, coordinator: Any) -> None:
        await _emit(coordinator, _EVENT, {})

    @pytest.mark.asyncio
    async def test_cleanup_is_callable_if_present(self, hook_cleanup: Any) -> None:
        assert hook_cleanup is None or callable(hook_cleanup), "what mount() returned cannot be called"

    @pytest.mark.asyncio
    async def test_cleanup_does_not_raise(self, hook_cleanup: Any) -> None:
        await _clean_up(hook_cleanup)


class StrictHookTests:
    """Requirements beyond the contract's tests: each event that the module has handlers for is emitted.

    A handler that raises is skipped by the registry, as in a session; an invalid answer is a failure.
    """

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_handlers_have_names(self, hook_cleanup: Any, coordinator: Any) -> None:
        for event, names in coordinator.hooks.list_handlers().items():
            assert isinstance(event, str) and event, "a handler is registered for an event without a name"
            assert all(isinstance(name, str) and name for name in names), f"a handler of {event} has no name"

    @pytest.mark.asyncio
    async def test_handlers_answer_an_event(self, hook_cleanup: Any, coordinator: Any) -> None:
        await _emit_all(coordinator, _EVENT_DATA)

    @pytest.mark.asyncio
    async def test_handlers_answer_an_event_without_fields(self, hook_cleanup: Any, coordinator: Any) -> None:
        await _emit_all(coordinator, {})

    @pytest.mark.asyncio
    async def test_handlers_answer_an_event_without_data(self, hook_cleanup: Any, coordinator: Any) -> None:
        await _emit_all(coordinator, None)

    @pytest.mark.asyncio
    async def test_events_go_on_after_the_cleanup(self, hook_cleanup: Any, coordinator: Any) -> None:
        if hook_cleanup is None:
            pytest.skip("mount() returned nothing to clean up with")
        await _clean_up(hook_cleanup)
        await _emit_all(coordinator, _EVENT_DATA)


async def _clean_up(cleanup: Any) -> None:
    done = None if cleanup is None else cleanup()
    if inspect.isawaitable(done):
        await done


async def _emit_all(coordinator: Any, data: Any) -> None:
    for event in list(coordinator.hooks.list_handlers()):
        result = await _emit(coordinator, event, data)
        assert result.reason != _INVALID_ANSWER, f"a handler of {event} returned no HookResult"


async def _emit(coordinator: Any, event: str, data: Any) -> HookResult:
    try:
        result = await coordinator.hooks.emit(event, data)
    except (AttributeError, TypeError) as error:
        pytest.fail(f"emitting {event} with {data!r} raised {type(error).__name__}: {error}")
    assert isinstance(result, HookResult)
    return result
