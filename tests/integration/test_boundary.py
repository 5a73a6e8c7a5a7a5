"""What the process boundary must not be noticed by: calls that nest, objects that travel, state that is shared."""

from __future__ import annotations

import json
from typing import Any

from integration.conftest import OpenSession, WriteModule

_ASKER = """
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
        tools=[{"module": "tool-ask", "source": write_module("tool-ask", _ASKER)}],
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


async def test_a_function_lent_to_another_module_runs_at_home_and_comes_back_as_itself(
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


async def test_an_event_emitted_right_after_a_registration_elsewhere_reaches_the_new_handler(
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
            goal = self.coordinator.session_state.setdefault("goal", {"turns_used": 0})
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
                "goal": self.coordinator.session_state.get("goal"),
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
        assert session.coordinator.session_state == {"goal": {"turns_used": 2}}
    assert answer["output"] == {
        "notes": ["first", "second"],
        "goal": {"turns_used": 2},
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


async def test_a_stream_arrives_whole_and_ends_at_its_source_when_its_reader_leaves(
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
