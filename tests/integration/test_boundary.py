"""What the process boundary must not be noticed by: calls that nest, objects that travel, state that is shared."""

from __future__ import annotations

import json
from typing import Any

from integration.community import community
from integration.conftest import OpenSession, WriteModule

_REQUESTER = """
    from amplifier_core.models import ToolResult

    class Echo:
        def shout(self, text):
            return text.upper() + "!"

    class Ask:
        name = "ask"
        description = "asks through a capability of another module"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            relay = self.coordinator.get_capability("relay")
            return ToolResult(output=relay.pass_on(input["text"]))

    async def mount(coordinator, config):
        coordinator.register_capability("echo", Echo())
        await coordinator.mount("tools", Ask(coordinator))
"""

_RELAY = """
    class Relay:
        def __init__(self, coordinator):
            self.coordinator = coordinator

        def pass_on(self, text):
            return "relayed " + self.coordinator.get_capability("echo").shout(text)

    async def mount(coordinator, config):
        coordinator.register_capability("relay", Relay(coordinator))
"""


async def test_a_synchronous_call_comes_back_into_the_module_that_waits_for_it(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        tools=[{"module": "tool-ask", "source": write_module("tool-ask", _REQUESTER)}],
        hooks=[{"module": "hooks-relay", "source": write_module("hooks-relay", _RELAY)}],
    ) as session:
        answer = json.loads(await session.execute('{"tool": "ask", "input": {"text": "hello"}}'))
    assert answer == {"success": True, "output": "relayed HELLO!", "error": None}


_OWNER = """
    from amplifier_core.models import ToolResult

    calls = []

    async def secret_recipe(value):
        calls.append(value)
        return value * 2

    class Lend:
        name = "lend"
        description = "hands a function to another module and takes it back"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            keeper = self.coordinator.get_capability("keeper")
            doubled = await keeper.keep_and_call(secret_recipe, 21)
            returned = await keeper.give_back()
            return ToolResult(output={
                "doubled": doubled,
                "calls": calls,
                "is_the_very_same": returned is secret_recipe,
            })

    async def mount(coordinator, config):
        await coordinator.mount("tools", Lend(coordinator))
"""

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


async def test_a_lent_function_runs_at_home_and_returns_as_itself(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        tools=[{"module": "tool-lend", "source": write_module("tool-lend", _OWNER)}],
        hooks=[{"module": "hooks-keeper", "source": write_module("hooks-keeper", _KEEPER)}],
    ) as session:
        answer = json.loads(await session.execute('{"tool": "lend"}'))
    assert answer["output"] == {"doubled": 42, "calls": [21], "is_the_very_same": True}


_LATE_LISTENER = """
    heard = []

    class Listener:
        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def listen(self, event):
            async def handler(event, data):
                heard.append(data["number"])

            self.coordinator.hooks.register(event, handler, name="late")
            return True

        async def heard(self):
            return heard

    async def mount(coordinator, config):
        coordinator.register_capability("listener", Listener(coordinator))
"""

_EMITTER = """
    from amplifier_core.models import ToolResult

    class Emit:
        name = "emit"
        description = "has another module listen, and emits at once"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            listener = self.coordinator.get_capability("listener")
            await self.coordinator.hooks.emit("news:before", {"number": 0})
            for number in range(1, 21):
                event = f"news:{number}"
                await listener.listen(event)
                await self.coordinator.hooks.emit(event, {"number": number})
            return ToolResult(output=await listener.heard())

    async def mount(coordinator, config):
        await coordinator.mount("tools", Emit(coordinator))
"""


async def test_an_event_right_after_a_registration_reaches_it(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        tools=[{"module": "tool-emit", "source": write_module("tool-emit", _EMITTER)}],
        hooks=[{"module": "hooks-late", "source": write_module("hooks-late", _LATE_LISTENER)}],
    ) as session:
        answer = json.loads(await session.execute('{"tool": "emit"}'))
    assert answer["output"] == list(range(1, 21))


_WRITER = """
    from amplifier_core.models import ToolResult

    class Note:
        name = "note"
        description = "writes shared state"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            self.coordinator.notes_state.append(input["text"])
            goal = self.coordinator.session_state.setdefault("progress", {"turns_used": 0})
            goal["turns_used"] += 1
            return ToolResult(output="noted")

    async def mount(coordinator, config):
        coordinator.notes_state = []
        coordinator.mount_points["tools"]["note"] = Note(coordinator)
"""

_READER = """
    from amplifier_core.models import ToolResult

    class Recall:
        name = "recall"
        description = "reads shared state"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            return ToolResult(output={
                "notes": self.coordinator.notes_state,
                "progress": self.coordinator.session_state.get("progress"),
                "absent": hasattr(self.coordinator, "never_written"),
            })

    async def mount(coordinator, config):
        await coordinator.mount("tools", Recall(coordinator))
"""


async def test_what_one_module_writes_in_place_on_the_coordinator_another_reads(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        tools=[
            {"module": "tool-note", "source": write_module("tool-note", _WRITER)},
            {"module": "tool-recall", "source": write_module("tool-recall", _READER)},
        ],
    ) as session:
        for text in ("first", "second"):
            await session.execute(json.dumps({"tool": "note", "input": {"text": text}}))
        answer = json.loads(await session.execute('{"tool": "recall"}'))
        on_the_host: Any = session.coordinator
        assert on_the_host.notes_state == ["first", "second"]
        assert session.coordinator.session_state == {"progress": {"turns_used": 2}}
    assert answer["output"] == {
        "notes": ["first", "second"],
        "progress": {"turns_used": 2},
        "absent": False,
    }


_STREAMER = """
    class Numbers:
        name = "numbers"
        closed = False

        async def count(self, limit):
            try:
                for number in range(limit):
                    yield number
            finally:
                type(self).closed = True

        async def was_closed(self):
            return type(self).closed

    async def mount(coordinator, config):
        coordinator.register_capability("numbers", Numbers())
"""

_STREAM_READER = """
    from amplifier_core.models import ToolResult

    class Read:
        name = "read"
        description = "reads a stream of another module"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            numbers = self.coordinator.get_capability("numbers")
            whole = [number async for number in numbers.count(500)]
            stream = numbers.count(10_000_000)
            first = await anext(stream)
            await stream.aclose()
            while not await numbers.was_closed():
                pass
            return ToolResult(output={"whole": whole == list(range(500)), "first": first})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Read(coordinator))
"""


async def test_a_stream_arrives_whole_and_ends_when_its_reader_leaves(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        tools=[{"module": "tool-read", "source": write_module("tool-read", _STREAM_READER)}],
        hooks=[{"module": "hooks-numbers", "source": write_module("hooks-numbers", _STREAMER)}],
    ) as session:
        answer = json.loads(await session.execute('{"tool": "read"}'))
    assert answer["output"] == {"whole": True, "first": 0}


_THREADS = """
    import asyncio
    import threading

    from amplifier_core.models import ToolResult

    class Threads:
        name = "threads"
        description = "uses the coordinator from a thread"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            def work():
                self.coordinator.register_capability("made.in.thread", threading.current_thread().name)
                return asyncio.run(self.coordinator.collect_contributions("colours"))

            contributed = await asyncio.to_thread(work)
            return ToolResult(output={
                "contributed": contributed,
                "is_there": bool(self.coordinator.get_capability("made.in.thread")),
            })

    async def mount(coordinator, config):
        coordinator.register_contributor("colours", "threads", lambda: "red")
        await coordinator.mount("tools", Threads(coordinator))
"""


async def test_the_coordinator_answers_from_other_threads_of_a_module(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        tools=[{"module": "tool-threads", "source": write_module("tool-threads", _THREADS)}]
    ) as session:
        answer = json.loads(await session.execute('{"tool": "threads"}'))
    assert answer["output"] == {"contributed": ["red"], "is_there": True}


_DEADLOCK = """
    from amplifier_core.models import ToolResult

    class Slow:
        async def answer(self):
            return 1

    class Trap:
        name = "trap"
        description = "waits in place for what only its own loop could answer"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            try:
                self.coordinator.get_capability("middleman").ask_back(self.coordinator.get_capability("slow"))
            except RuntimeError as error:
                return ToolResult(output=type(error).__name__)
            return ToolResult(output="no deadlock was noticed")

    async def mount(coordinator, config):
        coordinator.register_capability("slow", Slow())
        await coordinator.mount("tools", Trap(coordinator))
"""

_MIDDLEMAN = """
    class Middleman:
        def ask_back(self, slow):
            return slow.answer()

    async def mount(coordinator, config):
        coordinator.register_capability("middleman", Middleman())
"""


async def test_a_call_that_would_wait_for_itself_is_refused_at_once(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        tools=[{"module": "tool-trap", "source": write_module("tool-trap", _DEADLOCK)}],
        hooks=[{"module": "hooks-middleman", "source": write_module("hooks-middleman", _MIDDLEMAN)}],
    ) as session:
        answer = json.loads(await session.execute('{"tool": "trap"}'))
    assert answer["output"] == "DeadlockError"


_BUDGETING_CONTEXT = """
    class Budgeting:
        async def add_message(self, message):
            pass

        async def get_messages_for_request(self, token_budget=None, provider=None):
            info = provider.get_info()
            return [{"role": "user", "content": f"{provider.name} {info.id} {info.defaults['context_window']}"}]

        async def get_messages(self):
            return []

        async def set_messages(self, messages):
            pass

        async def clear(self):
            pass

    async def mount(coordinator, config):
        await coordinator.mount("context", Budgeting())
"""

_LENDER = """
    class Lender:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            messages = await context.get_messages_for_request(provider=providers["mock"])
            return messages[0]["content"]

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Lender())
"""


async def test_a_provider_handed_to_the_context_answers_its_synchronous_question(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    async with open_session(
        orchestrator={"module": "loop-lender", "source": write_module("loop-lender", _LENDER)},
        context={"module": "context-budget", "source": write_module("context-budget", _BUDGETING_CONTEXT)},
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


async def test_a_tool_reads_and_sees_the_context_only_when_the_plan_grants_it(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    entry: dict[str, Any] = {"module": "tool-overreach", "source": write_module("tool-overreach", _OVERREACH)}
    read: list[Any] = []
    shown: list[object] = []
    for permissions in ({}, {"call": ["context"]}):
        async with open_session(
            tools=[{**entry, "permissions": permissions}], context=community("context-briefing")
        ) as session:
            read.append(json.loads(await session.execute('{"tool": "overreach"}'))["output"])
            onlooker = session.coordinator.get("tools", "onlooker")
            for text in ("one", "two"):  # of what changes later, no more than of what was there first
                await session.coordinator.get("context").add_message({"role": "user", "content": text})
                shown.append((await onlooker.execute({})).output)
    refused, granted = read
    assert "may not call" in refused and granted == []
    one, two = ({"role": "user", "content": text} for text in ("one", "two"))
    assert shown == ["not shown", "not shown", [one], [one, two]]


async def test_the_application_reads_a_modules_stream(open_session: OpenSession, write_module: WriteModule) -> None:
    async with open_session(
        hooks=[{"module": "hooks-numbers", "source": write_module("hooks-numbers", _STREAMER)}]
    ) as session:
        numbers = session.coordinator.get_capability("numbers")
        assert [number async for number in numbers.count(100)] == list(range(100))
        stream = numbers.count(10_000_000)
        assert await anext(stream) == 0
        await stream.aclose()
        while not await numbers.was_closed():
            pass


async def test_an_object_of_the_application_is_called_from_a_module(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    class Resolver:
        def resolve(self, mention: str) -> str:
            return f"/docs/{mention}"

    code = """
        from amplifier_core.models import ToolResult

        class Mention:
            name = "mention"
            description = "asks the application, synchronously"

            def __init__(self, coordinator):
                self.coordinator = coordinator

            async def execute(self, input):
                return ToolResult(output=self.coordinator.get_capability("mention_resolver").resolve("readme"))

        async def mount(coordinator, config):
            await coordinator.mount("tools", Mention(coordinator))
    """
    async with open_session(
        tools=[{"module": "tool-mention", "source": write_module("tool-mention", code)}]
    ) as session:
        session.coordinator.register_capability("mention_resolver", Resolver())
        answer = json.loads(await session.execute('{"tool": "mention"}'))
    assert answer["output"] == "/docs/readme"


async def test_what_a_module_shows_is_text_whatever_it_hands_over(
    open_session: OpenSession, write_module: WriteModule
) -> None:
    shown: list[tuple[str, str]] = []

    class Display:
        def show_message(self, message: str, level: str, source: str = "hook") -> None:
            shown.append((message, level))

    code = """
        from amplifier_core.models import ToolResult

        class Show:
            name = "show"
            description = "shows what is no text"

            def __init__(self, coordinator):
                self.coordinator = coordinator

            async def execute(self, input):
                self.coordinator.display_system.show_message({"number": 7}, "shout")
                return ToolResult(output="shown")

        async def mount(coordinator, config):
            await coordinator.mount("tools", Show(coordinator))
    """
    async with open_session(
        tools=[{"module": "tool-show", "source": write_module("tool-show", code)}], display=Display()
    ) as session:
        answer = json.loads(await session.execute('{"tool": "show"}'))
    assert answer["output"] == "shown"
    assert shown == [("{'number': 7}", "info")]
