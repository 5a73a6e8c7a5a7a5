"""What crosses and as what, what cannot and how that is said, exceptions, and circles of synchronous calls."""

from __future__ import annotations

import json
from typing import Any

from integration.conftest import OpenSession
from integration.probe import entry_of, loop_code, probe, probed

# -- values ------------------------------------------------------------------------------------

_ECHO = """
    from dataclasses import dataclass

    from pydantic import BaseModel

    class Memory(BaseModel):
        text: str
        tags: set[str]

    @dataclass
    class Choice:
        provider: str
        model: str

        def label(self):
            return f"{self.provider}/{self.model}"

    class Echo:
        async def again(self, value):
            return value

        async def memories(self):
            return [Memory(text="one", tags={"a"})]

        async def choices(self):
            return [Choice("p", "m")]

        async def is_choice(self, value):
            return isinstance(value, Choice)

    async def mount(coordinator, config):
        coordinator.register_capability("echo", Echo())
"""


async def test_values_of_every_sort_come_back_as_what_they_were(open_session: OpenSession) -> None:
    body = """
import enum, math, uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from amplifier_core import Usage
from amplifier_foundation import ProviderPreference

class Colour(enum.Enum):
    RED = "red"

echo = coordinator.get_capability("echo")
values = [
    Decimal("1.10"), datetime(2024, 2, 29, tzinfo=timezone.utc), date(2024, 2, 29), time(1, 2), timedelta(days=1),
    Path("/a/b"), {1, 2}, frozenset({3}), b"bytes", uuid.UUID(int=7), (1, (2,)), {1: {"two": None}}, 2**80,
    "\\udc80", float("inf"), Usage(input_tokens=1, output_tokens=2, total_tokens=3, cost_usd=Decimal("0.1")),
    ProviderPreference("p", "m", {"k": 1}),
]
back = await echo.again(values)
different = [repr(one) for one, other in zip(values, back) if one != other or type(one) is not type(other)]
memory = (await echo.memories())[0]
choice = (await echo.choices())[0]
return ToolResult(output={
    "different": different,
    "nan": math.isnan(await echo.again(float("nan"))),
    "enum": await echo.again({Colour.RED: [Colour.RED]}),
    "model": [memory.text, memory["tags"] == {"a"}, memory.tags == {"a"}],
    "data class": [choice.provider, choice.label(), await echo.is_choice(choice)],
    "cost": str(back[-2].cost_usd),
})
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-echo", _ECHO)]) as session:
        assert await probed(session) == {
            "different": [],
            "nan": True,
            "enum": {"red": ["red"]},
            "model": ["one", True, True],
            "data class": ["p", "p/m", True],
            "cost": "0.1",
        }


# -- what cannot cross -------------------------------------------------------------------------

_KINDS = """
import asyncio, io, queue, socket, tempfile, threading

def generate():
    yield 1

async def sleep():
    pass

coroutine = sleep()
made = {
    "open file": open(__file__),
    "temporary file": tempfile.NamedTemporaryFile(),
    "socket": socket.socketpair()[0],
    "lock": threading.Lock(),
    "asyncio lock": asyncio.Lock(),
    "thread": threading.Thread(),
    "generator": generate(),
    "iterator": iter([1]),
    "coroutine": coroutine,
    "task": asyncio.current_task(),
    "module": asyncio,
    "class": dict,
}
value = made[input["kind"]]
"""

_CANNOT_CROSS = (
    _KINDS
    + """
echo = coordinator.get_capability("echo")
acts = {
    "capability": lambda: coordinator.register_capability("log", value),
    "nested capability": lambda: coordinator.register_capability("log", {"files": [value]}),
    "attribute": lambda: setattr(coordinator, "log", value),
}
said = {}
for name, act in acts.items():
    try:
        act()
    except TypeError as error:
        said[name] = [type(error).__name__, error.path, error.kind, error.hint != ""]
for name, call in (
    ("argument", lambda: echo.again({"file": value})),
    ("named argument", lambda: echo.again(value=[0, value])),
):
    try:
        await call()
    except TypeError as error:
        said[name] = [type(error).__name__, error.path, error.kind, str(error).startswith(error.path)]
coordinator._own = value
coordinator.session_state["log"] = value
left = [coordinator.get_capability("log"), hasattr(coordinator, "log"), coordinator._own is value]
coroutine.close()
return ToolResult(output={"said": said, "left": left, "goes on": await echo.again("yes")})
"""
)

_SAID = {
    "open file": "an open file",
    "temporary file": "an open file",
    "socket": "a socket",
    "lock": "a lock",
    "asyncio lock": "a lock",
    "thread": "a thread",
    "generator": "a generator",
    "iterator": "an iterator",
    "coroutine": "a coroutine",
    "task": "a task",
    "module": "a module",
    "class": "a class",
}


async def test_a_value_of_one_process_is_refused_with_its_place(open_session: OpenSession) -> None:
    async with open_session(tools=[probe(_CANNOT_CROSS)], hooks=[entry_of("hooks-echo", _ECHO)]) as session:
        for made, kind in _SAID.items():
            output = await probed(session, kind=made)
            assert output == {
                "said": {
                    "capability": ["CannotCrossError", 'capability "log"', kind, True],
                    "nested capability": ["CannotCrossError", 'capability "log"["files"][0]', kind, True],
                    "attribute": ["CannotCrossError", 'attribute "log"', kind, True],
                    "argument": ["CannotCrossError", 'arguments[0]["file"]', kind, True],
                    "named argument": ["CannotCrossError", 'arguments["value"][1]', kind, True],
                },
                "left": [None, False, True],
                "goes on": "yes",
            }, made
        on_the_host: Any = session.coordinator
        assert not hasattr(on_the_host, "_own") and "log" not in session.coordinator.session_state


async def test_what_stays_of_the_shared_state_is_said_once_in_the_modules_output(open_session: OpenSession) -> None:
    lines: list[str] = []
    body = """
coordinator.session_state["locks"] = {"mine": threading.Lock()}
coordinator.session_state["_locks"] = threading.Lock()
coordinator.session_state["told"] = {1, 2}
return ToolResult(output=list(coordinator.session_state))
"""
    async with open_session(tools=[probe(body)], on_output=lambda name, line: lines.append(line.text)) as session:
        for _ in range(2):
            assert await probed(session) == ["locks", "_locks", "told"]
        assert session.coordinator.session_state == {"told": {1, 2}}
    said = [line for line in lines if "stays in this module" in line]
    assert len(said) == 1
    assert 'session_state["locks"]["mine"] is a lock' in said[0]


_RETURNS = """
    import io

    class Returns:
        def plain(self):
            return {"log": io.StringIO()}

        async def awaited(self):
            return [io.StringIO()]

        async def items(self):
            yield 1
            yield io.StringIO()

    async def mount(coordinator, config):
        coordinator.register_capability("returns", Returns())
"""


async def test_what_cannot_be_returned_fails_the_call_naming_where_it_is(open_session: OpenSession) -> None:
    body = """
returns = coordinator.get_capability("returns")
paths = []

async def read():
    return [item async for item in returns.items()]

async def plain():
    return returns.plain()

for call in (plain, returns.awaited, read):
    try:
        await call()
    except TypeError as error:
        paths.append([error.path, error.kind])
return ToolResult(output=paths)
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-returns", _RETURNS)]) as session:
        assert await probed(session) == [
            ['return value["log"]', "an open file"],
            ["return value[0]", "an open file"],
            ["item of the stream", "an open file"],
        ]


async def test_an_output_of_a_class_of_its_own_arrives_as_what_it_says_or_holds(open_session: OpenSession) -> None:
    body = """
from dataclasses import dataclass

class Sum:
    def __str__(self):
        return "the sum is 3"

@dataclass
class Point:
    x: int
    y: int

return ToolResult(output=[Sum(), Point(1, 2), ValueError("bad")][input["number"]])
"""
    loop = """
        results = [await tools["probe"].execute({"number": number}) for number in range(3)]
        return json.dumps([[result.success, result.get_serialized_output()] for result in results])
    """
    async with open_session(orchestrator=entry_of("loop-serial", loop_code(loop)), tools=[probe(body)]) as session:
        came = json.loads(await session.execute("x"))
    assert came == [[True, "the sum is 3"], [True, json.dumps({"x": 1, "y": 2})], [True, "bad"]]


# -- exceptions --------------------------------------------------------------------------------

_RAISES = """
    import asyncio

    from amplifier_core.llm_errors import LLMError, RateLimitError

    class Vendor(RateLimitError):
        def __init__(self, vendor, seconds):
            super().__init__(f"{vendor}: wait", provider=vendor, retry_after=seconds, status_code=429)
            self.vendor_code = 17

    class Odd(Exception):
        def __init__(self, *, needed):
            super().__init__()
            self.needed = needed

        def __str__(self):
            return f"needed {self.needed}"

    class Raises:
        async def error(self, what):
            if what == "vendor":
                raise Vendor("acme", 1.5)
            if what == "timeout":
                raise TimeoutError("too slow")
            if what == "cancelled":
                raise asyncio.CancelledError()
            if what == "group":
                raise ExceptionGroup("several", [ValueError("one"), Vendor("acme", 2.5)])
            if what == "odd":
                raise Odd(needed="more")
            if what == "exit":
                raise SystemExit(3)
            raise FileNotFoundError(2, "No such file", "/nowhere")

        def plainly(self, what):
            raise Vendor("acme", 1.5)

    async def mount(coordinator, config):
        coordinator.register_capability("raises", Raises())
"""


async def test_exceptions_are_what_code_branches_on(open_session: OpenSession) -> None:
    body = """
from amplifier_core.llm_errors import LLMError, RateLimitError

raises = coordinator.get_capability("raises")
seen = {}
for what in ("vendor", "timeout", "group", "odd", "exit", "file"):
    try:
        await raises.error(what)
    except Exception as error:
        seen[what] = [type(error).__name__, str(error), error.remote_type]
        if what == "vendor":
            seen["details"] = [error.provider, error.retry_after, error.status_code, error.retryable, error.vendor_code]
        if what == "group":
            seen["members"] = [[type(e).__name__, getattr(e, "retry_after", None)] for e in error.exceptions]
        if what == "odd":
            seen["needed"] = getattr(error, "needed", None)
        if what == "file":
            seen["file"].append(error.filename)
try:
    await raises.error("cancelled")
except asyncio.CancelledError:
    seen["cancelled"] = [asyncio.current_task().cancelling()]
try:
    raises.plainly("x")
except RateLimitError as error:
    seen["plainly"] = [isinstance(error, LLMError), error.retry_after]
return ToolResult(output=seen)
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-raises", _RAISES)]) as session:
        assert await probed(session) == {
            "vendor": ["RateLimitError", "acme: wait", "Vendor"],
            "details": ["acme", 1.5, 429, True, 17],
            "timeout": ["TimeoutError", "too slow", "TimeoutError"],
            "group": ["ExceptionGroup", "several (2 sub-exceptions)", "ExceptionGroup"],
            "members": [["ValueError", None], ["RateLimitError", 2.5]],
            "odd": ["RuntimeError", "Odd: needed more", "Odd"],
            "needed": "more",
            "exit": ["RuntimeError", "SystemExit: 3", "SystemExit"],
            "file": ["FileNotFoundError", "[Errno 2] No such file: '/nowhere'", "FileNotFoundError", "/nowhere"],
            "cancelled": [0],
            "plainly": [True, 1.5],
        }


# -- circles -----------------------------------------------------------------------------------


async def test_a_circle_of_synchronous_calls_is_refused_by_name(open_session: OpenSession) -> None:
    body = """
class Slow:
    async def answer(self):
        return 1

try:
    coordinator.get_capability("first").ask(Slow())
except RuntimeError as error:
    return ToolResult(output=[type(error).__name__, list(error.chain), str(error)])
"""
    first = """
        class First:
            def __init__(self, coordinator):
                self.coordinator = coordinator

            def ask(self, slow):
                return self.coordinator.get_capability("second").ask(slow)

        async def mount(coordinator, config):
            coordinator.register_capability("first", First(coordinator))
    """
    second = """
        class Second:
            def ask(self, slow):
                return slow.answer()

        async def mount(coordinator, config):
            coordinator.register_capability("second", Second())
    """
    async with open_session(
        tools=[probe(body)], hooks=[entry_of("hooks-first", first), entry_of("hooks-second", second)]
    ) as session:
        kind, chain, said = await probed(session)
    assert kind == "DeadlockError"
    assert chain == ["tool-probe", "hooks-first", "hooks-second", "tool-probe"]
    assert "tool-probe → hooks-first → hooks-second → tool-probe" in said
    assert "make what `tool-probe` calls in `hooks-first` a coroutine function and await it" in said
