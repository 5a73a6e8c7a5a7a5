"""What the process boundary must not be noticed by: calls that nest, objects that travel, state that is shared."""

from __future__ import annotations

from typing import Any

from integration.community import community
from integration.conftest import OpenSession
from integration.probe import context_code, entry_of, loop_code, probe, probed

_RELAY = """
    class Relay:
        def __init__(self, coordinator):
            self.coordinator = coordinator

        def pass_on(self, text):
            return "relayed " + self.coordinator.get_capability("echo").shout(text)

    async def mount(coordinator, config):
        coordinator.register_capability("relay", Relay(coordinator))
"""


async def test_a_synchronous_call_comes_back_into_the_module_that_waits_for_it(open_session: OpenSession) -> None:
    body = """
class Echo:
    def shout(self, text):
        return text.upper() + "!"

coordinator.register_capability("echo", Echo())
return ToolResult(output=coordinator.get_capability("relay").pass_on("hello"))
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-relay", _RELAY)]) as session:
        assert await probed(session) == "relayed HELLO!"


_KEEPER = """
    import inspect

    class Keeper:
        async def keep_and_call(self, function, value):
            self.function = function
            assert inspect.iscoroutinefunction(function)
            return await function(value)

        async def give_back(self):
            return self.function

    async def mount(coordinator, config):
        coordinator.register_capability("keeper", Keeper())
"""


async def test_a_lent_function_runs_at_home_and_returns_as_itself(open_session: OpenSession) -> None:
    body = """
calls = []

async def secret_recipe(value):
    calls.append(value)
    return value * 2

keeper = coordinator.get_capability("keeper")
doubled = await keeper.keep_and_call(secret_recipe, 21)
return ToolResult(output=[doubled, calls, await keeper.give_back() is secret_recipe])
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-keeper", _KEEPER)]) as session:
        assert await probed(session) == [42, [21], True]


_LATE_LISTENER = """
    heard = []

    class Listener:
        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def listen(self, event):
            self.coordinator.hooks.register(event, lambda event, data: heard.append(data["number"]), name="late")

        async def heard(self):
            return heard

    async def mount(coordinator, config):
        coordinator.register_capability("listener", Listener(coordinator))
"""


async def test_an_event_right_after_a_registration_reaches_it(open_session: OpenSession) -> None:
    body = """
listener = coordinator.get_capability("listener")
await coordinator.hooks.emit("news:before", {"number": 0})
for number in range(1, 21):
    await listener.listen(f"news:{number}")
    await coordinator.hooks.emit(f"news:{number}", {"number": number})
return ToolResult(output=await listener.heard())
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-late", _LATE_LISTENER)]) as session:
        assert await probed(session) == list(range(1, 21))


_BUDGETING_CONTEXT = context_code(
    """
    async def get_messages_for_request(self, token_budget=None, provider=None):
        info = provider.get_info()
        return [{"role": "user", "content": f"{provider.name} {info.id} {info.defaults['context_window']}"}]
    """
)

_LENDER = """
    messages = await context.get_messages_for_request(provider=providers["mock"])
    return messages[0]["content"]
"""


async def test_a_provider_handed_to_the_context_answers_its_synchronous_question(open_session: OpenSession) -> None:
    async with open_session(
        orchestrator=entry_of("loop-lender", loop_code(_LENDER)),
        context=entry_of("context-budget", _BUDGETING_CONTEXT),
        providers=[{"module": "provider-mock", "config": {"responses": [], "context_window": 43210}}],
    ) as session:
        assert await session.execute("x") == "mock mock 43210"


_OVERREACH = """
    from amplifier_core.models import ToolResult

    class Overreach:
        name = "overreach"
        description = "calls what it can see but was not handed"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            try:
                messages = await self.coordinator.get("context").get_messages()
            except PermissionError as error:
                return ToolResult(output=str(error))
            return ToolResult(output=messages)

    class Onlooker(Overreach):
        name = "onlooker"

        async def execute(self, input):
            return ToolResult(output=getattr(self.coordinator.get("context"), "messages", "not shown"))

    async def mount(coordinator, config):
        await coordinator.mount("tools", Overreach(coordinator))
        await coordinator.mount("tools", Onlooker(coordinator))
"""


async def test_a_tool_reads_and_sees_the_context_only_when_the_plan_grants_it(open_session: OpenSession) -> None:
    entry: dict[str, Any] = entry_of("tool-overreach", _OVERREACH)
    read: list[Any] = []
    shown: list[object] = []
    for permissions in ({}, {"call": ["context"]}):
        async with open_session(
            tools=[{**entry, "permissions": permissions}], context=community("context-briefing")
        ) as session:
            read.append(await probed(session, "overreach"))
            onlooker = session.coordinator.get("tools", "onlooker")
            for text in ("one", "two"):  # of what changes later, no more than of what was there first
                await session.coordinator.get("context").add_message({"role": "user", "content": text})
                shown.append((await onlooker.execute({})).output)
    refused, granted = read
    assert "may not call" in refused and granted == []
    one, two = ({"role": "user", "content": text} for text in ("one", "two"))
    assert shown == ["not shown", "not shown", [one], [one, two]]


async def test_what_a_module_shows_is_text_whatever_it_hands_over(open_session: OpenSession) -> None:
    shown: list[tuple[str, str]] = []

    class Display:
        def show_message(self, message: str, level: str, source: str = "hook") -> None:
            shown.append((message, level))

    body = """
coordinator.display_system.show_message({"number": 7}, "shout")
return ToolResult(output="shown")
"""
    async with open_session(tools=[probe(body)], display=Display()) as session:
        assert await probed(session) == "shown"
    assert shown == [("{'number': 7}", "info")]
