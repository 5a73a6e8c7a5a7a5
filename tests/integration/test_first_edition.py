"""Modules of the contract's first edition, each in a process of its own: how they mount, call, refuse and describe."""

from __future__ import annotations

from integration.community import contents, listen
from integration.conftest import OpenSession
from integration.probe import entry_of

_TOOL = """
    from amplifier_core import ToolResult

    class Shout:
        name = "shout"
        description = "Says it aloud."

        def get_schema(self):
            return {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}

        async def execute(self, input):
            return ToolResult(output=input["word"].upper())

    async def mount(coordinator, config):
        shout = Shout()
        await coordinator.mount("tools", shout, name="shout")
        return shout
"""
_CONTEXT = """
    class Notes:
        def __init__(self):
            self.messages = []

        async def add_message(self, message):
            self.messages.append(message)

        async def get_messages_for_request(self, token_budget=None, provider=None):
            return list(self.messages)

        async def get_messages(self):
            return list(self.messages)

        async def set_messages(self, messages):
            self.messages = list(messages)

        async def clear(self):
            self.messages = []

    async def mount(coordinator, config):
        notes = Notes()
        await coordinator.mount("session", notes, name="context")
        return notes
"""
_LOOP = """
    from amplifier_core import ToolResult
    from amplifier_core.message_models import ToolCall

    class Once:
        async def execute(self, prompt, context, providers, tools, hooks):
            await context.add_message({"role": "user", "content": prompt})
            for word in prompt.split():
                call = ToolCall(id=word, name="shout", arguments={"word": word})
                result = await self.run(tools[call.name], call, hooks)
                answer = {"role": "tool", "tool_call_id": call.id, "content": f"{result.success} {result.output}"}
                await context.add_message(answer)
            return " ".join(tools["shout"].get_schema()["required"])

        async def run(self, tool, call, hooks):
            verdict = await hooks.emit("tool:pre", {"tool_name": call.name, "tool_input": call.input})
            if verdict.action == "deny":
                return ToolResult(is_error=True, output=verdict.reason)
            result = await tool.execute(call.input)
            await hooks.emit("tool:post", {"tool_name": call.name, "tool_result": result})
            return result

    async def mount(coordinator, config):
        once = Once()
        await coordinator.mount("session", once, name="orchestrator")
        return once
"""
_HOOK = """
    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        async def guard(event, data):
            if data["tool_input"]["word"] == "no":
                return HookResult(action="deny", reason="that word is not said")
            return HookResult(action="continue")

        unregister = coordinator.hooks.register("tool:pre", guard, priority=10)

        def cleanup():
            unregister()

        return cleanup
"""


async def test_a_session_of_older_modules_works(open_session: OpenSession) -> None:
    loop = entry_of("loop-once", _LOOP)
    context = entry_of("context-notes", _CONTEXT)
    tool = entry_of("tool-shout", _TOOL)
    hook = entry_of("hooks-guard", _HOOK)
    async with open_session(orchestrator=loop, context=context, tools=[tool], hooks=[hook]) as session:
        done = listen(session, "tool:post")
        assert await session.execute("yes no") == "word"
        assert await contents(session, "tool") == ["True YES", "False that word is not said"]
    assert [event.data["tool_result"] for event in done] == ["YES"]
