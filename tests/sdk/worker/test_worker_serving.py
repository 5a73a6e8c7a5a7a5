"""Requests a worker serves: each runs as its flavour says and ends exactly once, whatever module code does."""

from __future__ import annotations

import asyncio
import functools
from types import SimpleNamespace
from typing import Any

import pytest

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.protocol import Flag, HandleEntry, HandleSide, Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection, WorkerMethod
from support.scripted_end import ASYNC

from .conftest import Rig, until
from .scripted_host import ScriptedHost


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words for it")


class _Words(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class _Attributes(Exception):
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise OSError("nothing to see")


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise OSError("no name")


class _NoName(Exception, metaclass=_Nameless):
    pass


class _Work:
    """Members of every flavour, ending in every way."""

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]

    def returns_awaitable(self, value: Any) -> Any:
        return asyncio.ensure_future(self.coroutine(value))

    async def coroutine(self, value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    async def itself(self) -> Any:
        return self

    async def large(self) -> str:
        return "x" * 5000

    async def fails(self, how: str) -> None:
        raise {
            "lookup": LookupError("no such thing"),
            "exit": SystemExit(3),
            "interrupt": KeyboardInterrupt(),
            "large": ValueError("x" * 5000),
            "deep": ValueError([[[[[[[[[[1]]]]]]]]]]),
            "huge number": ValueError(10**2000),
            "unspeakable": _Unspeakable(object()),
            "speechless argument": ValueError(_Speechless()),
            "interrupting words": _Words(),
            "no attributes": _Attributes(),
            "no name": _NoName(),
        }[how]

    def fails_in_place(self, how: str) -> None:
        raise {"lookup": LookupError("no such thing"), "exit": SystemExit(3), "large": ValueError("x" * 5000)}[how]


class _Speechless:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Known:
    """An object of the worker's, as the host knows it."""

    def __init__(self, rig: Rig, entry: HandleEntry) -> None:
        self.id = entry.id
        self.description = rig.host.description(entry)
        self.numbers = {member.name: number for number, member in enumerate(self.description.members)}


async def known(rig: Rig, value: object) -> Known:
    return Known(rig, await rig.export(value))


async def test_every_flavour_of_member_is_run_and_answered(rig: Rig) -> None:
    work = await known(rig, _Work())

    def script(host: ScriptedHost) -> None:
        body, handles = host.body([[1, 2], {"named": 3}])
        id, frame = host.connection.send_request(work.id, work.numbers["plain"], body, handles, flags=Flag.IN_PLACE)
        host.write(frame)
        assert host.answer(id) == [[1, 2], {"named": 3}]
        for member in ("coroutine", "returns_awaitable"):
            assert host.answer(host.request(work.id, work.numbers[member], "value")) == "value"
        assert host.answer(host.request(work.id, work.numbers["itself"])) == HandleEntry(HandleSide.SENDER, work.id)

    await rig.play(script)


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("lookup", LookupError, "no such thing"),
        ("exit", RuntimeError, "SystemExit: 3"),
        ("interrupt", RuntimeError, "KeyboardInterrupt"),
        ("deep", ValueError, r"\["),
        ("large", RuntimeError, "ValueError, which cannot be sent"),
        ("huge number", ValueError, "^10{1999}"),
        ("unspeakable", RuntimeError, "_Unspeakable"),
        ("speechless argument", ValueError, "_Speechless"),
        ("interrupting words", RuntimeError, "_Words"),
        ("no attributes", RuntimeError, "_Attributes"),
        ("no name", RuntimeError, "an exception"),
    ],
)
async def test_whatever_a_coroutine_raises_ends_its_call_and_nothing_else(
    how: str, kind: type[Exception], said: str, rig: Rig
) -> None:
    rig.driver.connection.send_limit = 10_000  # the traceback of a small error fits, a large error does not
    work = await known(rig, _Work())

    def script(host: ScriptedHost) -> None:
        with pytest.raises(kind, match=said):
            host.answer(host.request(work.id, work.numbers["fails"], how))
        assert host.answer(host.request(work.id, work.numbers["coroutine"], "still here")) == "still here"

    await rig.play(script)


@pytest.mark.parametrize("how", ["lookup", "exit", "large"])
async def test_whatever_a_plain_function_raises_ends_its_call_and_nothing_else(how: str, rig: Rig) -> None:
    rig.driver.connection.send_limit = 10_000
    work = await known(rig, _Work())

    def script(host: ScriptedHost) -> None:
        with pytest.raises(Exception, match=r"no such thing|SystemExit|cannot be sent"):
            host.in_place(work.id, work.numbers["fails_in_place"], how)
        assert host.in_place(work.id, work.numbers["plain"]) == [[], {}]

    await rig.play(script)


async def test_an_answer_that_is_too_large_is_a_failure(rig: Rig) -> None:
    rig.driver.connection.send_limit = 4000
    work = await known(rig, _Work())

    def script(host: ScriptedHost) -> None:
        with pytest.raises(Exception, match="over the limit"):
            host.answer(host.request(work.id, work.numbers["large"]))

    await rig.play(script)


# -- cancellation ------------------------------------------------------------------------------


class _Slow:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.begun = asyncio.Event()

    async def wait(self) -> None:
        self.log.append("begun")
        self.begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise

    async def refuses_to_end(self) -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "ended well all the same"
        return "unreachable"


def _until_all_ended(host: ScriptedHost) -> None:
    for _ in range(100):
        if not host.connection.outgoing:
            return
        assert host.is_silent()
    raise AssertionError("a call did not end")


async def test_a_cancelled_request_is_cancelled_where_it_runs_and_ends(rig: Rig) -> None:
    slow = _Slow()
    entry = await known(rig, slow)
    id = await rig.play(lambda host: host.request(entry.id, entry.numbers["wait"]))
    await slow.begun.wait()

    def script(host: ScriptedHost) -> None:
        host.write(host.connection.send_cancel(id))
        _until_all_ended(host)

    await rig.play(script)
    assert slow.log == ["begun", "cancelled"]


@pytest.mark.parametrize("member", ["wait", "refuses_to_end"])
async def test_a_request_cancelled_before_it_ran_a_step_still_ends(member: str, rig: Rig) -> None:
    entry = await known(rig, _Slow())

    def script(host: ScriptedHost) -> None:
        id, request = host.request_frame(entry.id, entry.numbers[member])
        host.write(request, host.connection.send_cancel(id))
        _until_all_ended(host)

    await rig.play(script)


async def test_a_cancellation_by_the_host_raises_cancelled_error(rig: Rig) -> None:
    """What a cancelled handler answers is told as what it is, so that a caller can tell it from a failure."""

    class Cancels:
        async def itself(self) -> None:
            raise asyncio.CancelledError

    entry = await known(rig, Cancels())

    def script(host: ScriptedHost) -> None:
        with pytest.raises(asyncio.CancelledError):
            host.answer(host.request(entry.id, 0))

    await rig.play(script)


# -- tools -------------------------------------------------------------------------------------


class _Result:
    """A result of a module's own class, in the contract's shape."""

    def __init__(self) -> None:
        self.success = 1
        self.output = {"of": "its own"}


class _Tool:
    name = "tool"
    description = "returns or raises what it is told to"

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    async def execute(self, input: dict[str, Any]) -> Any:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


async def _mounted(rig: Rig, point: str, value: Any, name: str | None = None) -> Known:
    """Mount an object; return it as the host knows it."""

    def script(host: ScriptedHost) -> HandleEntry:
        request = host.request_from_worker(HostMethod.MOUNT)
        assert host.value(request)[:2] == [point, name]
        host.respond(request.id)
        return request.handles[0]

    async with rig.playing(script) as played:
        await rig.coordinator.mount(point, value, name)
    return Known(rig, played.result())


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        pytest.param(ToolResult(output=[1, 2]), ToolResult(output=[1, 2]), id="a result"),
        pytest.param(_Result(), ToolResult(output={"of": "its own"}), id="a result of its own class"),
        pytest.param("text", "TypeError", id="something else"),
        pytest.param(None, "TypeError", id="nothing"),
        pytest.param(ToolResult(output=object()), "CannotCrossError", id="a result that cannot be sent"),
        pytest.param(ToolResult(output=lambda: 1), "CannotCrossError", id="a result with a live object"),
        pytest.param(LookupError("no such thing"), "LookupError", id="an exception"),
        pytest.param(SystemExit(3), "SystemExit", id="an exit"),
        pytest.param(_Unspeakable(), "_Unspeakable", id="an exception without words"),
    ],
)
async def test_a_tool_answers_with_a_result_whatever_it_does(outcome: Any, result: Any, rig: Rig) -> None:
    tool = await _mounted(rig, "tools", _Tool(outcome), "tool")

    def script(host: ScriptedHost) -> Any:
        id = host.request(tool.id, tool.numbers["execute"], {})
        if isinstance(outcome, BaseException):
            host.grant(HostMethod.EXPLAIN, [])
        return host.answer(id)

    answered = await rig.play(script)
    assert isinstance(answered, ToolResult)
    if isinstance(result, ToolResult):
        assert answered == result
    else:
        assert not answered.success
        assert answered.error is not None and answered.error["type"] == result


async def test_a_tool_behind_a_decorator_is_still_awaited(rig: Rig) -> None:
    def traced(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    class Decorated(_Tool):
        execute = traced(_Tool.execute)

    tool = await _mounted(rig, "tools", Decorated(LookupError("no such thing")), "tool")
    assert {member.name: member.flavour for member in tool.description.members} == {"execute": ASYNC}

    def script(host: ScriptedHost) -> Any:
        id = host.request(tool.id, 0, {})
        host.grant(HostMethod.EXPLAIN, [])
        return host.answer(id)

    answered = await rig.play(script)
    assert answered.error["type"] == "LookupError"


async def test_a_tool_that_is_cancelled_is_no_result(rig: Rig) -> None:
    tool = await _mounted(rig, "tools", _Tool(asyncio.CancelledError()), "tool")

    def script(host: ScriptedHost) -> None:
        with pytest.raises(asyncio.CancelledError):
            host.answer(host.request(tool.id, tool.numbers["execute"], {}))

    await rig.play(script)


async def test_only_what_is_mounted_as_a_tool_is_taken_for_one(rig: Rig) -> None:
    entry = await known(rig, _Tool("text"))

    def script(host: ScriptedHost) -> None:
        assert host.answer(host.request(entry.id, entry.numbers["execute"], {})) == "text"

    await rig.play(script)


async def test_an_orchestrator_finds_the_session_at_hand(rig: Rig) -> None:
    given: dict[str, Any] = {}

    class Loop:
        async def execute(self, prompt: str, **session: Any) -> str:
            given.update(session)
            return prompt.upper()

    loop = await _mounted(rig, "orchestrator", Loop())

    def script(host: ScriptedHost) -> Any:
        host.mirror(MirrorSection.MOUNTED, ["tools", "echo", host.own(9, {"execute": ASYNC}, name="echo")])
        host.mirror(MirrorSection.MOUNTED, ["context", None, host.own(10, {"add_message": ASYNC})])
        id, frame = host.request_frame(loop.id, loop.numbers["execute"], raw=[[], {"prompt": "hello"}])
        host.write(frame)
        return host.answer(id)

    assert await rig.play(script) == "HELLO"
    assert given["coordinator"] is rig.coordinator
    assert given["hooks"] is rig.coordinator.hooks
    assert given["context"] is rig.coordinator.get("context")
    assert list(given["tools"]) == ["echo"] and given["tools"] is rig.coordinator.get("tools")
    assert given["providers"] == {}


# -- descriptions that change ------------------------------------------------------------------


class _Changing:
    name = "changing"

    def __init__(self) -> None:
        self.calls = 0
        self.api_key = "first"

    @property
    def description(self) -> str:
        return f"called {self.calls} times"

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        if input.get("count", True):
            self.calls += 1
        self.api_key = f"rotated {id(input)}"
        return ToolResult(output=self.calls)

    def touch(self) -> None:
        self.calls += 1


async def test_a_tools_new_description_arrives_before_the_answer(rig: Rig) -> None:
    tool = await _mounted(rig, "tools", _Changing(), "changing")
    assert tool.description.attributes["description"] == "called 0 times"

    def script(host: ScriptedHost) -> list[Any]:
        told = []
        for member, args in (("execute", [{}]), ("touch", [])):
            id = host.request(tool.id, tool.numbers[member], *args)
            notice = host.next()
            assert (notice.kind, notice.method) == (Kind.NOTIFY, HostMethod.DESCRIBE)
            number, description = host.value(notice)
            assert number == tool.id
            told.append(host.description(HandleEntry(HandleSide.SENDER, number, description)).attributes)
            assert host.next().id == id
        return told

    told = await rig.play(script)
    assert [attributes["description"] for attributes in told] == ["called 1 times", "called 2 times"]
    assert all("api_key" not in attributes for attributes in told)


async def test_a_call_also_sends_other_objects_changed_properties(rig: Rig) -> None:
    changing = _Changing()
    tool = await _mounted(rig, "tools", changing, "changing")
    plain = await known(rig, SimpleNamespace(touch=lambda: changing.touch()))

    def script(host: ScriptedHost) -> Any:
        id = host.request(plain.id, plain.numbers["touch"], flags=Flag.IN_PLACE)
        notice = host.next()
        assert host.next().id == id
        number, description = host.value(notice)
        assert number == tool.id
        return host.description(HandleEntry(HandleSide.SENDER, number, description)).attributes["description"]

    assert await rig.play(script) == "called 1 times"


async def test_a_host_that_asks_anew_is_told_of_every_change_before_the_answer(rig: Rig) -> None:
    changing, still = _Changing(), _Tool(ToolResult())
    await _mounted(rig, "tools", changing, "changing")
    await _mounted(rig, "tools", still, "still")
    changing.calls = 7  # by work of the module's own, in nobody's service
    still.description = "said by itself"

    def script(host: ScriptedHost) -> list[list[str]]:
        told = []
        for _ in range(2):
            assert host.answer(host.request(0, WorkerMethod.DESCRIBE_ANEW, raw=[])) is None
            notices, host.frames = host.frames, []
            assert all((notice.kind, notice.method) == (Kind.NOTIFY, HostMethod.DESCRIBE) for notice in notices)
            said = [HandleEntry(HandleSide.SENDER, *host.value(notice)) for notice in notices]
            told.append([host.description(entry).attributes["description"] for entry in said])
        return told

    assert await rig.play(script) == [["called 7 times", "said by itself"], []]


async def test_a_calls_side_data_lives_as_long_as_its_task(rig: Rig) -> None:
    coordinator = rig.coordinator
    found: list[Any] = []

    class Looking:
        name = "looking"

        async def execute(self, input: dict[str, Any]) -> ToolResult:
            contexts = getattr(coordinator, "_tool_dispatch_contexts", {})
            found.append(contexts.get(asyncio.current_task()))
            if input.get("fail"):
                raise LookupError("not found")
            return ToolResult()

    tool = await _mounted(rig, "tools", Looking(), "looking")

    def script(host: ScriptedHost) -> None:
        context = {"tool_call_id": "c1"}
        for input, *told in (
            ({}, {"dispatch_context": context}),
            ({}, {"of a later version": 1}),
            ({},),
            ({"fail": True}, {"dispatch_context": context}),
        ):
            id = host.request(tool.id, tool.numbers["execute"], raw=[[input], {}, *told])
            if input:
                host.grant(HostMethod.EXPLAIN, [])
            host.answer(id)

    await rig.play(script)
    assert found == [{"tool_call_id": "c1"}, None, None, {"tool_call_id": "c1"}]
    assert vars(coordinator)["_tool_dispatch_contexts"] == {}


async def test_nothing_is_told_of_a_description_that_stays_the_same(rig: Rig) -> None:
    tool = await _mounted(rig, "tools", _Changing(), "changing")

    def script(host: ScriptedHost) -> None:
        id = host.request(tool.id, tool.numbers["execute"], {"count": False})
        assert host.next().id == id

    await rig.play(script)


async def test_a_property_that_fails_after_a_call_costs_the_call_nothing(rig: Rig) -> None:
    class Moody:
        name = "moody"
        good = True

        @property
        def description(self) -> str:
            if not self.good:
                raise OSError("not today")
            return "in a good mood"

        async def execute(self, input: dict[str, Any]) -> ToolResult:
            self.good = False
            return ToolResult(output="done")

    moody = await _mounted(rig, "tools", Moody(), "moody")

    def script(host: ScriptedHost) -> None:
        assert host.answer(host.request(moody.id, moody.numbers["execute"], {})) == ToolResult(output="done")

    await rig.play(script)


async def test_an_object_that_is_not_mounted_is_described_once(rig: Rig) -> None:
    changing = await known(rig, SimpleNamespace(count=0, bump=lambda: None))

    class Counter:
        count = 0

        def bump(self) -> int:
            self.count += 1
            return self.count

    counter = await known(rig, Counter())

    def script(host: ScriptedHost) -> None:
        assert host.in_place(counter.id, counter.numbers["bump"]) == 1
        assert host.is_silent()

    await rig.play(script)
    assert changing.description.attributes == {"count": 0}
    await until(lambda: not rig.driver.connection.incoming)
