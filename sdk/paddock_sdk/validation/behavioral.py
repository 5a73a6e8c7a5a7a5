"""The behaviour of every module of a kind, as tests to inherit from.

`…BehaviorTests` are the contract's: the same names, passed and failed by the same modules. `Strict…Tests` require more.
pytest collects a subclass whose name starts with `Test`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from paddock_sdk.contract.llm_errors import LLMError
from paddock_sdk.contract.message_models import ChatResponse, TextBlock
from paddock_sdk.contract.models import HookResult, ModelInfo, ProviderInfo, ToolResult
from paddock_sdk.kernel.settle import settled

__all__ = [
    "ContextBehaviorTests",
    "HookBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "StrictContextTests",
    "StrictHookTests",
    "StrictOrchestratorTests",
    "StrictProviderTests",
    "StrictToolTests",
    "ToolBehaviorTests",
]


@contextmanager
def _only_refusals(doing: str, *defects: type[Exception]) -> Iterator[None]:
    """Fail the test for exceptions of these classes; any other is a refusal, and passes, as the contract has it."""
    with suppress(Exception):
        try:
            yield
        except defects as error:
            pytest.fail(f"{doing} raised {type(error).__name__}: {error}")


class ToolBehaviorTests:
    """The contract's tests of the fixture `tool_module`. The tool is executed, with inputs that ask for nothing."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, tool_module: Any) -> None:
        assert tool_module is not None

    @pytest.mark.asyncio
    async def test_tool_has_name(self, tool_module: Any) -> None:
        assert isinstance(tool_module.name, str), "`name` has to be text: it is how models call the tool"
        assert tool_module.name, "`name` is empty"

    @pytest.mark.asyncio
    async def test_tool_has_description(self, tool_module: Any) -> None:
        assert isinstance(tool_module.description, str), "`description` has to be text: models read it"
        assert tool_module.description, "`description` is empty"

    @pytest.mark.asyncio
    async def test_tool_has_execute_method(self, tool_module: Any) -> None:
        assert callable(tool_module.execute), "`execute` cannot be called"

    @pytest.mark.asyncio
    async def test_execute_returns_tool_result(self, tool_module: Any) -> None:
        result = await tool_module.execute({"_tool_call_id": "call-1"})
        assert isinstance(result, ToolResult), f"execute() has to return a ToolResult, not {type(result).__name__}"

    @pytest.mark.asyncio
    async def test_tool_result_has_required_fields(self, tool_module: Any) -> None:
        result = await tool_module.execute({"_tool_call_id": "call-2"})
        missing = [name for name in ("success", "output") if not hasattr(result, name)]
        assert not missing, f"what execute() returns has no `{'` and no `'.join(missing)}`"

    @pytest.mark.asyncio
    async def test_invalid_input_returns_error_result(self, tool_module: Any) -> None:
        with _only_refusals("execute() with an empty input", AttributeError, TypeError, KeyError):
            await tool_module.execute({})


class StrictToolTests:
    """Requirements beyond the contract's tests that every orchestrator relies on."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_input_schema_is_a_dict(self, tool_module: Any) -> None:
        assert isinstance(getattr(tool_module, "input_schema", {}), dict), "`input_schema` has to be a JSON schema"

    @pytest.mark.asyncio
    async def test_execute_is_asynchronous(self, tool_module: Any) -> None:
        assert inspect.iscoroutinefunction(tool_module.execute), "`execute` has to be defined with `async def`"

    @pytest.mark.asyncio
    async def test_execute_answers_an_empty_input(self, tool_module: Any) -> None:
        result = await tool_module.execute({})
        assert isinstance(result, ToolResult), f"execute() has to return a ToolResult, not {type(result).__name__}"


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
    await settled(None if cleanup is None else cleanup())


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
        with _only_refusals("execute() with an empty prompt", AttributeError, TypeError, KeyError):
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
        with _only_refusals("add_message() with an empty message", AttributeError, TypeError):
            await context_module.add_message({})

    @pytest.mark.asyncio
    async def test_internal_should_compact_returns_bool(self, context_module: Any) -> None:
        should_compact = getattr(context_module, "_should_compact", None)
        if should_compact is None:
            return  # it need not be there
        parameters = inspect.signature(should_compact).parameters.values()
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = sum(one.default is one.empty and one.kind in by_position for one in parameters)
        if required not in (0, len(_NUMBERS_OF_TOKENS)):
            pytest.skip(f"`_should_compact` takes {required} arguments, and what they are is not known")
        found = await settled(should_compact(*_NUMBERS_OF_TOKENS[:required]))
        assert isinstance(found, bool), f"_should_compact() has to return a bool, not {type(found).__name__}"

    @pytest.mark.asyncio
    async def test_internal_compact_does_not_crash(self, context_module: Any) -> None:
        if not hasattr(context_module, "_compact_internal"):
            return  # it need not be there
        with _only_refusals("_compact_internal()", AttributeError, TypeError):
            await settled(context_module._compact_internal())


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


def _said(messages: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(message.get("role"), message.get("content")) for message in messages]
