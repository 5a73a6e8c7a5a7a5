"""What every provider does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paddock_sdk.contract.llm_errors import LLMError
from paddock_sdk.contract.message_models import ChatResponse, TextBlock
from paddock_sdk.contract.models import ModelInfo, ProviderInfo

__all__ = ["ProviderBehaviorTests"]


class ProviderBehaviorTests:
    """Tests of the fixture `provider_module`. Nothing is asked of a model; its list of models may be."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_name_is_text(self, provider_module: Any) -> None:
        assert isinstance(provider_module.name, str), "`name` has to be text"
        assert provider_module.name.strip(), "`name` is empty"

    @pytest.mark.asyncio
    async def test_get_info_says_what_it_is(self, provider_module: Any) -> None:
        info = provider_module.get_info()
        assert isinstance(info, ProviderInfo), f"get_info() has to return a ProviderInfo, not {type(info).__name__}"
        assert info.id, "the `id` of its info is empty"
        assert info.display_name, "the `display_name` of its info is empty"

    @pytest.mark.asyncio
    async def test_list_models_lists_models(self, provider_module: Any) -> None:
        try:
            models = await provider_module.list_models()
        except LLMError as error:
            pytest.skip(f"the provider could not ask for its models: {error}")
        assert isinstance(models, list), f"list_models() has to return a list, not {type(models).__name__}"
        strangers = {type(model).__name__ for model in models if not isinstance(model, ModelInfo)}
        assert not strangers, f"list_models() has to return ModelInfo objects, not {', '.join(sorted(strangers))}"

    @pytest.mark.asyncio
    async def test_complete_is_asynchronous(self, provider_module: Any) -> None:
        assert callable(provider_module.complete), "`complete` cannot be called"
        assert inspect.iscoroutinefunction(provider_module.complete), "`complete` has to be defined with `async def`"

    @pytest.mark.asyncio
    async def test_an_answer_without_tool_calls_has_none(self, provider_module: Any) -> None:
        calls = provider_module.parse_tool_calls(ChatResponse(content=[TextBlock(text="Hello.")]))
        assert isinstance(calls, list), f"parse_tool_calls() has to return a list, not {type(calls).__name__}"
        assert calls == [], "parse_tool_calls() found tool calls in an answer that has none"
