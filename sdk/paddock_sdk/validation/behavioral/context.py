"""What every context manager does."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["ContextBehaviorTests"]

_QUESTION = {"role": "user", "content": "What is two and two?"}
_ANSWER = {"role": "assistant", "content": "Four."}


class ContextBehaviorTests:
    """Tests of the fixture `context_module`. A context may keep more of a message than it was given."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_mounts_a_context(self, context_module: Any) -> None:
        assert context_module is not None

    @pytest.mark.asyncio
    async def test_messages_are_a_list(self, context_module: Any) -> None:
        messages = await context_module.get_messages()
        assert isinstance(messages, list), f"get_messages() has to return a list, not {type(messages).__name__}"

    @pytest.mark.asyncio
    async def test_a_message_that_was_added_is_kept(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        assert _said(await context_module.get_messages())[-1:] == _said([_QUESTION])

    @pytest.mark.asyncio
    async def test_messages_keep_their_order(self, context_module: Any) -> None:
        for message in (_QUESTION, _ANSWER):
            await context_module.add_message(dict(message))
        assert _said(await context_module.get_messages())[-2:] == _said([_QUESTION, _ANSWER])

    @pytest.mark.asyncio
    async def test_messages_can_be_replaced(self, context_module: Any) -> None:
        await context_module.add_message({"role": "user", "content": "Forget this."})
        await context_module.set_messages([dict(_QUESTION), dict(_ANSWER)])
        assert _said(await context_module.get_messages()) == _said([_QUESTION, _ANSWER])

    @pytest.mark.asyncio
    async def test_clear_forgets_the_conversation(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        await context_module.clear()
        assert _said([_QUESTION])[0] not in _said(await context_module.get_messages())

    @pytest.mark.asyncio
    async def test_a_request_has_the_latest_message(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        messages = await context_module.get_messages_for_request()
        assert isinstance(messages, list), "get_messages_for_request() has to return a list"
        assert _said([_QUESTION])[0] in _said(messages)

    @pytest.mark.asyncio
    async def test_a_request_may_name_a_budget(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        messages = await context_module.get_messages_for_request(token_budget=100_000)
        assert isinstance(messages, list), "get_messages_for_request() has to return a list"

    @pytest.mark.asyncio
    async def test_whether_to_compact_can_be_asked(self, context_module: Any) -> None:
        if not hasattr(context_module, "_should_compact"):
            pytest.skip("the context has no `_should_compact`, which it need not have")
        assert callable(context_module._should_compact), "`_should_compact` cannot be called"

    @pytest.mark.asyncio
    async def test_compacting_can_be_asked_for(self, context_module: Any) -> None:
        if not hasattr(context_module, "_compact_internal"):
            pytest.skip("the context has no `_compact_internal`, which it need not have")
        assert callable(context_module._compact_internal), "`_compact_internal` cannot be called"


def _said(messages: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(message.get("role"), message.get("content")) for message in messages]
