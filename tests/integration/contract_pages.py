"""A module of each kind, as the contract's pages have their readers write one."""

from __future__ import annotations

from typing import Final

TOOL: Final = """
    from amplifier_core import ModuleCoordinator, ToolResult

    class Counter:
        def __init__(self, config):
            self.most = config.get("max_size", 100)

        @property
        def name(self) -> str:
            return "my_tool"

        @property
        def description(self) -> str:
            return "Counts the characters of a text."

        def get_schema(self) -> dict:
            return {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

        async def execute(self, input: dict) -> ToolResult:
            try:
                text = input.get("text")
                if not text:
                    return ToolResult(success=False, error={"message": "text is required"})
                return ToolResult(success=True, output=await self._count(text))
            except Exception as e:
                return ToolResult(success=False, error={"message": str(e), "type": type(e).__name__})

        async def _count(self, text):
            if len(text) > self.most:
                raise OverflowError("too long")
            return len(text)

    async def mount(coordinator: ModuleCoordinator, config: dict):
        coordinator.register_contributor("observability.events", "my-tool", lambda: ["my-tool:started"])
        tool = Counter(config=config)
        await coordinator.mount("tools", tool, name="my-tool")
        return tool
"""
PROVIDER: Final = """
    import logging
    import os

    from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ThinkingBlock, ToolCall, Usage
    from amplifier_core.models import ModelInfo, ProviderInfo

    logger = logging.getLogger(__name__)

    class Client:
        async def close(self):
            pass

    class Echo:
        def __init__(self, api_key, config):
            self.client = Client()

        @property
        def name(self) -> str:
            return "my-provider"

        def get_info(self) -> ProviderInfo:
            defaults = {"context_window": 8000, "max_output_tokens": 1000}
            return ProviderInfo(id="my-provider", display_name="Mine", defaults=defaults)

        async def list_models(self) -> list[ModelInfo]:
            return [ModelInfo(id="model-v1", display_name="One", context_window=8000, max_output_tokens=1000)]

        async def complete(self, request: ChatRequest, **kwargs) -> ChatResponse:
            last, usage = request.messages[-1], Usage(input_tokens=3, output_tokens=2, total_tokens=5)
            if last.role == "tool":
                thought = ThinkingBlock(thinking="done", signature="sig_abc")
                return ChatResponse(content=[thought, TextBlock(text=f"It has {last.content}.")], usage=usage)
            called = ToolCall(id="call_1", name="my-tool", arguments={"text": last.content})
            return ChatResponse(content=[TextBlock(text="Let me count.")], tool_calls=[called], usage=usage)

        def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
            return response.tool_calls or []

    async def mount(coordinator, config: dict):
        api_key = config.get("api_key") or os.environ.get("MY_API_KEY")
        if not api_key:
            logger.warning("No API key - provider not mounted")
            return None
        provider = Echo(api_key=api_key, config=config)
        await coordinator.mount("providers", provider, name="my-provider")

        async def cleanup():
            await provider.client.close()

        return cleanup
"""
HOOK: Final = """
    from amplifier_core.hooks import HookRegistry
    from amplifier_core.models import HookResult

    async def guard(event: str, data: dict) -> HookResult:
        if "/etc" in str(data["tool_input"]):
            return HookResult(action="deny", reason="Access denied")
        return HookResult(action="continue")

    async def feed_back(event: str, data: dict) -> HookResult:
        text = "Found 3 linting errors..."
        return HookResult(action="inject_context", context_injection=text, user_message="Linting issues detected")

    async def mount(coordinator, config: dict):
        registry: HookRegistry = coordinator.hooks
        handlers = [
            registry.register(event="tool:pre", handler=guard, priority=10, name="guard"),
            coordinator.hooks.register("tool:post", feed_back, priority=20),
        ]

        def cleanup():
            for unregister in handlers:
                unregister()

        return cleanup
"""
ORCHESTRATOR: Final = """
    from amplifier_core.message_models import ChatRequest, Message, ToolSpec
    from amplifier_core.models import ToolResult

    class Loop:
        def __init__(self, config):
            self.config = config

        async def execute(self, prompt, context, providers, tools, hooks) -> str:
            provider_name = self.config.get("default_provider", list(providers.keys())[0])
            provider = providers[provider_name]
            await context.add_message({"role": "user", "content": prompt})
            while True:
                messages = await context.get_messages_for_request(provider=provider)
                await hooks.emit("provider:request", {"provider": provider_name, "messages": messages})
                asked = [Message(role=one["role"], content=one["content"]) for one in messages]
                offered = [ToolSpec(name=name, parameters=tool.get_schema()) for name, tool in tools.items()]
                response = await provider.complete(ChatRequest(messages=asked, tools=offered))
                about = {"provider": provider_name, "response": response, "usage": response.usage}
                await hooks.emit("provider:response", about)
                await context.add_message({"role": "assistant", "content": response.content})
                calls = provider.parse_tool_calls(response)
                if not calls:
                    return response.content[-1].text
                for tool_call in calls:
                    result = await self._call(tool_call, tools, hooks, context)
                    content = result.output if isinstance(result.output, str) else str(result.output)
                    message = {"role": "tool", "tool_call_id": tool_call.id, "content": content}
                    await context.add_message(message)

        async def _call(self, tool_call, tools, hooks, context):
            data = {"tool_name": tool_call.name, "tool_input": tool_call.input}
            pre_result = await hooks.emit("tool:pre", data)
            if pre_result.action == "deny":
                return ToolResult(is_error=True, output=pre_result.reason)
            result = await tools[tool_call.name].execute(tool_call.input)
            post_result = await hooks.emit("tool:post", {**data, "tool_result": result})
            if post_result.action == "inject_context":
                role, text = post_result.context_injection_role, post_result.context_injection
                await context.add_message({"role": role, "content": text})
            return result

    async def mount(coordinator, config: dict):
        orchestrator = Loop(config=config)
        await coordinator.mount("session", orchestrator, name="orchestrator")
        return orchestrator
"""
CONTEXT: Final = """
    class Memory:
        def __init__(self, max_tokens, compaction_threshold, hooks=None):
            self._messages, self._max_tokens, self._hooks = [], max_tokens, hooks
            self._compaction_threshold, self._keep_recent = compaction_threshold, 3

        async def add_message(self, message):
            if "role" not in message:
                raise ValueError("Message must have 'role' field")
            self._messages.append(message)

        async def get_messages_for_request(self, token_budget=None, provider=None):
            budget, messages = self._calculate_budget(token_budget, provider), list(self._messages)
            if self._count(messages) <= budget * self._compaction_threshold:
                return messages
            await self._emit("context:pre_compact", messages)
            start = max(0, len(messages) - self._keep_recent)
            while start > 0 and messages[start].get("role") == "tool":
                start -= 1
            compacted = [one for one in messages[:start] if one["role"] == "system"] + messages[start:]
            await self._emit("context:post_compact", compacted)
            return compacted

        def _calculate_budget(self, token_budget, provider):
            if token_budget is not None:
                return token_budget
            if provider is not None:
                try:
                    defaults = provider.get_info().defaults or {}
                    window, output = defaults.get("context_window"), defaults.get("max_output_tokens")
                    if window and output:
                        return window - output - 1000
                except Exception:
                    pass
            return self._max_tokens

        def _count(self, messages):
            return sum(len(str(one)) // 4 for one in messages)

        async def _emit(self, event, messages):
            if self._hooks is not None:
                about = {"message_count": len(messages), "token_count": self._count(messages)}
                await self._hooks.emit(event, about)

        async def get_messages(self):
            return list(self._messages)

        async def set_messages(self, messages):
            self._messages = list(messages)

        async def clear(self):
            self._messages = []

    async def mount(coordinator, config: dict):
        context = Memory(config.get("max_tokens", 100000), config.get("compaction_threshold", 0.8), coordinator.hooks)
        await coordinator.mount("session", context, name="context")
        return context
"""
MODULES: Final = {
    "orchestrator": ("my-orchestrator", ORCHESTRATOR),
    "context": ("my-context", CONTEXT),
    "provider": ("my-provider", PROVIDER),
    "tool": ("my-tool", TOOL),
    "hook": ("my-hook", HOOK),
}
