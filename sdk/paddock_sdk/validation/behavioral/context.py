"""The behaviour of every context manager: the contract's tests, and stricter ones."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pytest

from paddock_sdk.validation.behavioral.defects import only_refusals

__all__ = ["ContextBehaviorTests", "StrictContextTests"]

_QUESTION: Final = {"role": "user", "content": "What is two and two?"}
_ANSWER: Final = {"role": "assistant", "content": "Four."}
_NUMBERS_OF_TOKENS: Final = (100_000, 200_000)  # the whole budget of the conversation, and that of one request


class ContextBehaviorTests:
    """The contract's tests of the fixture `context_module`. A context may keep more of a message than it was given."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, context_module: Any) -> None:
        assert context_module is not None

    @pytest.mark.asyncio
    async def test_context_has_required_methods(self, context_module: Any) -> None:
        for name in ("add_message", "get_messages", "clear"):
            assert callable(getattr(context_module, name, None)), f"there is no `{name}` that can be called"

    @pytest.mark.asyncio
    async def test_message_round_trip(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        contents = [message.get("content") for message in await context_module.get_messages()]
        assert _QUESTION["content"] in contents, "a message that was added is not there"

    @pytest.mark.asyncio
    async def test_multiple_messages(self, context_module: Any) -> None:
        for message in (_QUESTION, _ANSWER, _QUESTION):
            await context_module.add_message(dict(message))
        messages = await context_module.get_messages()
        assert len(messages) >= 3, f"of three messages that were added {len(messages)} are there"

    @pytest.mark.asyncio
    async def test_clear_removes_messages(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        await context_module.clear()
        assert len(await context_module.get_messages()) == 0, "messages are left after clear()"

    @pytest.mark.asyncio
    async def test_get_messages_for_request_returns_messages(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        if hasattr(context_module, "get_messages_for_request"):
            messages = await context_module.get_messages_for_request()
            assert isinstance(messages, list), "get_messages_for_request() has to return a list"
            assert messages, "a request has no message, though one was added"

    @pytest.mark.asyncio
    async def test_get_messages_never_returns_none(self, context_module: Any) -> None:
        messages = await context_module.get_messages()
        assert isinstance(messages, list), f"get_messages() has to return a list, not {type(messages).__name__}"

    @pytest.mark.asyncio
    async def test_add_invalid_message_does_not_crash(self, context_module: Any) -> None:
        with only_refusals("add_message() with an empty message", AttributeError, TypeError):
            await context_module.add_message({})

    @pytest.mark.asyncio
    async def test_internal_should_compact_returns_bool(self, context_module: Any) -> None:
        should_compact = getattr(context_module, "_should_compact", None)
        if should_compact is None:
            return  # it need not be there
        required = _required_parameters(should_compact)
        if required not in (0, len(_NUMBERS_OF_TOKENS)):
            pytest.skip(f"`_should_compact` takes {required} arguments, and what they are is not known")
        found = should_compact(*_NUMBERS_OF_TOKENS[:required])
        found = await found if inspect.isawaitable(found) else found
        assert isinstance(found, bool), f"_should_compact() has to return a bool, not {type(found).__name__}"

    @pytest.mark.asyncio
    async def test_internal_compact_does_not_crash(self, context_module: Any) -> None:
        if not hasattr(context_module, "_compact_internal"):
            return  # it need not be there
        with only_refusals("_compact_internal()", AttributeError, TypeError):
            done = context_module._compact_internal()
            if inspect.isawaitable(done):
                await done


class StrictContextTests:
    """Requirements beyond the contract's tests that sessions rely on."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_messages_keep_their_order(self, context_module: Any) -> None:
        for message in (_QUESTION, _ANSWER):
            await context_module.add_message(dict(message))
        assert _said(await context_module.get_messages())[-2:] == _said([_QUESTION, _ANSWER])

    @pytest.mark.asyncio
    async def test_messages_can_be_replaced(self, context_module: Any) -> None:
        await context_module.clear()  # a context may begin with a conversation of its own
        await context_module.add_message({"role": "user", "content": "Forget this."})
        await context_module.set_messages([dict(_QUESTION), dict(_ANSWER)])
        assert _said(await context_module.get_messages()) == _said([_QUESTION, _ANSWER])

    @pytest.mark.asyncio
    async def test_a_request_has_the_latest_message(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        assert _said([_QUESTION])[0] in _said(await context_module.get_messages_for_request())

    @pytest.mark.asyncio
    async def test_a_request_may_name_a_budget(self, context_module: Any) -> None:
        await context_module.add_message(dict(_QUESTION))
        messages = await context_module.get_messages_for_request(token_budget=100_000)
        assert isinstance(messages, list), "get_messages_for_request() has to return a list"


def _required_parameters(function: Any) -> int:
    parameters = inspect.signature(function).parameters.values()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.default is one.empty and one.kind in by_position for one in parameters)


def _said(messages: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(message.get("role"), message.get("content")) for message in messages]
