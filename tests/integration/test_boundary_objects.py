"""What stands in a process for an object of another: its members, its class, what it says now, what it streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from integration.conftest import OpenSession
from integration.probe import entry_of, probe, probed

_OWNER = """
    from datetime import datetime
    from decimal import Decimal
    from pathlib import Path

    class Native:
        name = "native"
        priority = 100
        native_tool_spec = {"type": "native", "sizes": (1, 2)}
        limits = {"a", "b"}

        def __init__(self, coordinator):
            self.coordinator = coordinator
            self.priority = 5
            self.root = Path("/docs")
            self.cost = Decimal("0.10")
            self.since = datetime(2024, 2, 29)
            self.client = object()

        @property
        def description(self):
            return "agents: " + ", ".join(sorted(self.coordinator.config.get("agents", {})))

        @property
        def failing(self):
            raise OSError("not today")

        @classmethod
        def spec_of(cls, version):
            return {"version": version, "by": cls.__name__}

        @staticmethod
        async def check(number):
            return number + 1

        async def __aenter__(self):
            return self

        async def __aexit__(self, kind, error, trace):
            self.left = [kind.__name__, str(error), trace is not None] if error else "well"
            return error is not None

        async def how_it_was_left(self):
            return self.left

        async def execute(self, input):
            pass

    async def mount(coordinator, config):
        coordinator.register_capability("native", Native(coordinator))
"""


async def test_an_object_shows_what_its_class_shows_and_nothing_that_it_has_not(open_session: OpenSession) -> None:
    body = """
native = coordinator.get_capability("native")
kind = type(native)
try:
    async with native as entered:
        raise LookupError("inside")
except LookupError:
    swallowed = False
else:
    swallowed = True
return ToolResult(output={
    "class data": [kind.native_tool_spec, kind.priority, kind.limits == {"a", "b"}, kind.name],
    "own data": [native.priority, str(native.root), str(native.cost), native.since.year, native.native_tool_spec],
    "class only": getattr(kind, "root", None),
    "properties": [type(kind.description).__name__ != "str", native.description],
    "of the class": [kind.spec_of(2), native.spec_of(3), await kind.check(4)],
    "absent": [hasattr(native, name) for name in ("failing", "client", "absent", "__len__", "__iter__")],
    "functions": [asyncio.iscoroutinefunction(native.execute), asyncio.iscoroutinefunction(native.spec_of)],
    "called": callable(native),
    "entered": entered is native,
    "swallowed": swallowed,
    "left": await native.how_it_was_left(),
    "same": native is coordinator.get_capability("native"),
})
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-owner", _OWNER)]) as session:
        output = await probed(session)
    spec = {"type": "native", "sizes": [1, 2]}
    assert output == {
        "class data": [spec, 100, True, "native"],
        "own data": [5, "/docs", "0.10", 2024, spec],
        "class only": None,
        "properties": [True, "agents: "],
        "of the class": [{"version": 2, "by": "Native"}, {"version": 3, "by": "Native"}, 5],
        "absent": [False] * 5,
        "functions": [True, False],
        "called": False,
        "entered": True,
        "swallowed": True,
        "left": ["LookupError", "inside", False],
        "same": True,
    }


_TELLER = """
    from amplifier_core.models import ToolResult

    class Base:
        input_schema = {}

        def __init__(self, coordinator):
            self.coordinator = coordinator

    class Agents(Base):
        name = "agents"

        @property
        def description(self):
            return f"{sorted(self.coordinator.config.get('agents', {}))} {self.coordinator.session_state.get('mood')}"

        async def execute(self, input):
            return ToolResult(output="unused")

    class Counter(Base):
        name = "counter"
        description = "counts"

        def __init__(self, coordinator):
            super().__init__(coordinator)
            self.count = 0

        async def execute(self, input):
            self.count += 1
            self.coordinator.session_state["mood"] = f"mood {self.count}"
            return ToolResult(output=self.count)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Agents(coordinator))
        await coordinator.mount("tools", Counter(coordinator))
"""

_READING_LOOP = """
    import json

    class Reading:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            seen = [tools["agents"].description]
            tools["agents"].priority = 5  # on the stand-in: nobody else is told
            await tools["counter"].execute({})
            seen.append(tools["agents"].description)
            coordinator.session_state["mood"] = "set elsewhere"
            await hooks.emit("provider:request", {"provider": "none", "iteration": 1})
            seen.append(tools["agents"].description)
            return json.dumps([*seen, tools["counter"].count, tools["agents"].priority])

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Reading())
"""


async def test_a_request_has_each_tools_latest_description(open_session: OpenSession) -> None:
    async with open_session(
        orchestrator=entry_of("loop-reading", _READING_LOOP), tools=[entry_of("tool-teller", _TELLER)]
    ) as session:
        heard = session.coordinator.hooks.register("provider:request", lambda event, data: None)
        first = json.loads(await session.execute("x"))
        session.coordinator.config["agents"] = {"writer": {}}
        second = json.loads(await session.execute("x"))
        session.coordinator.hooks.register(
            "provider:request", lambda event, data: session.coordinator.config["agents"].update(late={})
        )
        await session.execute("x")
        third = json.loads(await session.execute("x"))
        heard()
    assert first == ["[] None", "[] mood 1", "[] set elsewhere", 1, 5]
    assert second[:3] == ["['writer'] set elsewhere", "['writer'] mood 2", "['writer'] set elsewhere"]
    assert third[0] == "['late', 'writer'] set elsewhere"


# -- streams -----------------------------------------------------------------------------------

_STREAMS = """
    made, closed = [], []

    class Iterator:
        def __init__(self, limit):
            self.left = limit
            self.label = "three"

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return self.left

        async def total(self):
            return self.left

    class Iterable:
        def __aiter__(self):
            return numbers(3)

    async def numbers(limit, fail_at=None):
        try:
            for number in range(limit):
                if number == fail_at:
                    raise LookupError(f"no number {number}")
                made.append(number)
                yield number
        finally:
            closed.append(limit)

    class Streams:
        def plain(self, limit):
            return numbers(limit)

        async def awaited(self, limit):
            return numbers(limit)

        async def generator(self, limit, fail_at=None):
            async for number in numbers(limit, fail_at):
                yield number

        def iterator(self, limit):
            return Iterator(limit)

        async def iterable(self):
            return Iterable()

        def counts(self):
            return [len(made), list(closed)]

    async def mount(coordinator, config):
        coordinator.register_capability("streams", Streams())
"""


async def test_all_iterables_can_be_read_from_another_process(open_session: OpenSession) -> None:
    body = """
streams = coordinator.get_capability("streams")
output = {
    "plain": [n async for n in streams.plain(3)],
    "awaited": [n async for n in await streams.awaited(3)],
    "generator": [n async for n in streams.generator(300)] == list(range(300)),
    "iterable": [[n async for n in source] for source in [await streams.iterable()] for again in (1, 2)],
}
iterator = streams.iterator(3)
output["by hand"] = [await anext(iterator), iterator.label, [n async for n in iterator], await iterator.total()]
output["closes"] = [hasattr(iterator, "aclose"), hasattr(streams.plain(1), "aclose")]
failing, got = streams.generator(5, fail_at=2), []
try:
    async for n in failing:
        got.append(n)
except LookupError as error:
    output["failed"] = [got, str(error)]
return ToolResult(output=output)
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-streams", _STREAMS)]) as session:
        assert await probed(session) == {
            "plain": [0, 1, 2],
            "awaited": [0, 1, 2],
            "generator": True,
            "iterable": [[0, 1, 2], [0, 1, 2]],
            "by hand": [2, "three", [1, 0], 0],
            "closes": [False, True],
            "failed": [[0, 1], "no number 2"],
        }


async def test_a_generator_keeps_to_its_readers_credit_and_is_closed(open_session: OpenSession) -> None:
    body = """
streams = coordinator.get_capability("streams")
counts = {}
for how, stream in (("plain", streams.plain(10**6)), ("awaited", await streams.awaited(10**6))):
    before = streams.counts()[0]
    first = await anext(stream)
    await asyncio.sleep(0)
    counts[how] = [first, streams.counts()[0] - before <= 64]
    await stream.aclose()
    while len(streams.counts()[1]) <= list(counts).index(how):
        await asyncio.sleep(0.001)
unread = streams.plain(5)
await unread.aclose()
counts["after"] = [[n async for n in unread], streams.counts()[1]]
return ToolResult(output=counts)
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-streams", _STREAMS)]) as session:
        assert await probed(session) == {
            "plain": [0, True],
            "awaited": [0, True],
            "after": [[], [10**6, 10**6]],
        }


async def test_the_applications_own_generators_reach_a_module_item_by_item(open_session: OpenSession) -> None:
    closed = asyncio.Event()
    made: list[int] = []

    class Source:
        async def count(self, limit: int) -> AsyncIterator[int]:
            try:
                for number in range(limit):
                    made.append(number)
                    yield number
            finally:
                closed.set()

        def counted(self, limit: int) -> AsyncIterator[int]:
            return self.count(limit)

        async def fail(self) -> AsyncIterator[int]:
            yield 1
            raise LookupError("that was all")

    body = """
source = coordinator.get_capability("source")
whole = [n async for n in source.count(100)]
again = [n async for n in source.counted(100)]
got = []
try:
    async for n in source.fail():
        got.append(n)
except LookupError as error:
    got.append(str(error))
stream = source.count(10**6)
first = await anext(stream)
await stream.aclose()
return ToolResult(output=[whole == again == list(range(100)), got, first])
"""
    async with open_session(tools=[probe(body)]) as session:
        session.coordinator.register_capability("source", Source())
        assert await probed(session) == [True, [1, "that was all"], 0]
        await closed.wait()
        assert len(made) < 400


async def test_an_application_reads_what_is_iterated_in_a_module(open_session: OpenSession) -> None:
    async with open_session(hooks=[entry_of("hooks-streams", _STREAMS)]) as session:
        streams: Any = session.coordinator.get_capability("streams")
        assert [number async for number in await streams.plain(3)] == [0, 1, 2]
        assert [number async for number in await streams.awaited(300)] == list(range(300))
        assert [number async for number in await streams.iterator(3)] == [2, 1, 0]
        stream = await streams.plain(10**6)
        assert await anext(stream) == 0
        await stream.aclose()
        while (await streams.counts())[1][-1] != 10**6:
            await asyncio.sleep(0)
