"""What every hook does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paddock_sdk.contract.models import HookResult

__all__ = ["HookBehaviorTests"]

_EVENT_DATA = {"session_id": "test-session", "tool_name": "test_tool", "tool_input": {}, "prompt": "Hello."}

# What the registry says of an answer that is none; a handler never says so itself.
_INVALID_ANSWER = "Hook handler returned invalid response"


class HookBehaviorTests:
    """Tests of the fixture `hook_cleanup`, what `mount` returned, and of the handlers on the fixture `coordinator`.

    A handler that raises is skipped by the registry, as in a session; one that answers what is no answer is a failure.
    """

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_returns_a_cleanup_function_or_nothing(self, hook_cleanup: Any) -> None:
        assert hook_cleanup is None or callable(hook_cleanup), "what mount() returned cannot be called"

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
    async def test_cleanup_can_be_called(self, hook_cleanup: Any) -> None:
        if hook_cleanup is None:
            pytest.skip("mount() returned nothing to clean up with")
        done = hook_cleanup()
        if inspect.isawaitable(done):
            await done

    @pytest.mark.asyncio
    async def test_events_go_on_after_the_cleanup(self, hook_cleanup: Any, coordinator: Any) -> None:
        if hook_cleanup is None:
            pytest.skip("mount() returned nothing to clean up with")
        done = hook_cleanup()
        if inspect.isawaitable(done):
            await done
        await _emit_all(coordinator, _EVENT_DATA)


async def _emit_all(coordinator: Any, data: Any) -> None:
    for event in list(coordinator.hooks.list_handlers()):
        try:
            result = await coordinator.hooks.emit(event, data)
        except (AttributeError, TypeError) as error:
            pytest.fail(f"emitting {event} with {data!r} raised {type(error).__name__}: {error}")
        assert isinstance(result, HookResult)
        assert result.reason != _INVALID_ANSWER, f"a handler of {event} returned no HookResult"
