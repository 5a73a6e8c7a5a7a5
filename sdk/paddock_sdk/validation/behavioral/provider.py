"""The behaviour of every provider: the contract's tests, and stricter ones."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paddock_sdk.contract.llm_errors import LLMError
from paddock_sdk.contract.message_models import ChatResponse, TextBlock
from paddock_sdk.contract.models import ModelInfo, ProviderInfo

__all__ = ["ProviderBehaviorTests", "StrictProviderTests"]


class ProviderBehaviorTests:
    """The contract's tests of the fixture `provider_module`. They call no model, but may list models."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, provider_module: Any) -> None:
        assert provider_module is not None

    @pytest.mark.asyncio
    async def test_provider_has_name_attribute(self, provider_module: Any) -> None:
        assert isinstance(provider_module.name, str), "`name` has to be text"
        assert provider_module.name, "`name` is empty"

    @pytest.mark.asyncio
    async def test_get_info_returns_valid_provider_info(self, provider_module: Any) -> None:
        info = provider_module.get_info()
        assert isinstance(info, ProviderInfo), f"get_info() has to return a ProviderInfo, not {type(info).__name__}"
        assert info.id, "the `id` of its info is empty"
        assert info.display_name, "the `display_name` of its info is empty"

    @pytest.mark.asyncio
    async def test_list_models_returns_list(self, provider_module: Any) -> None:
        models = await provider_module.list_models()
        assert isinstance(models, list), f"list_models() has to return a list, not {type(models).__name__}"

    @pytest.mark.asyncio
    async def test_parse_tool_calls_returns_list(self, provider_module: Any) -> None:
        calls = provider_module.parse_tool_calls(_without_tool_calls())
        assert isinstance(calls, list), f"parse_tool_calls() has to return a list, not {type(calls).__name__}"


class StrictProviderTests:
    """Requirements beyond the contract's tests that every orchestrator relies on."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_complete_is_asynchronous(self, provider_module: Any) -> None:
        assert inspect.iscoroutinefunction(provider_module.complete), "`complete` has to be defined with `async def`"

    @pytest.mark.asyncio
    async def test_list_models_lists_models(self, provider_module: Any) -> None:
        try:
            models = await provider_module.list_models()
        except LLMError as error:
            pytest.skip(f"the provider could not ask for its models: {error}")
        strangers = {type(model).__name__ for model in models if not isinstance(model, ModelInfo)}
        assert not strangers, f"list_models() has to return ModelInfo objects, not {', '.join(sorted(strangers))}"

    @pytest.mark.asyncio
    async def test_an_answer_without_tool_calls_has_none(self, provider_module: Any) -> None:
        calls = provider_module.parse_tool_calls(_without_tool_calls())
        assert calls == [], "parse_tool_calls() found tool calls in an answer that has none"


def _without_tool_calls() -> ChatResponse:
    return ChatResponse(content=[TextBlock(text="Hello.")])
