"""What one module has the host or the context hold is bounded, and the session goes on without it.

Each attack is made through a real worker, and beside it stands what is ordinary and passes.
"""

from __future__ import annotations

import json
from typing import Any

import psutil
import pytest

from integration.conftest import OpenSession
from integration.probe import called, context_code, entry_of, loop_code
from integration.raw_wire import RAW_WIRE
from integration.session_internals import kill, runtime_of
from paddock import Session
from paddock_sdk.contract.boundary_errors import OverLimitError

_MIB = 1024 * 1024

_TALKER = """
    from amplifier_core.models import HookResult, ToolResult

    class Talker:
        name = "{name}"
        description = "answers with as much as it is asked for"
        input_schema = {{"type": "object"}}

        def __init__(self, coordinator):
            self._coordinator = coordinator

        async def execute(self, input):
            coordinator, size, times = self._coordinator, input.get("size", 0), input.get("times", 0)
            answers = []

            async def heard(event, data):
                answers.append(event)
                return HookResult(action=input["action"], data={{"v": "x" * size}}, context_injection="y")

            def given():
                answers.append("asked")
                return "x" * size

            match input.get("act"):
                case "contribute":
                    for k in range(times):
                        coordinator.register_contributor("channel", f"{{k}}", given)
                case "collect":
                    return ToolResult(output=[len(one) for one in await coordinator.collect_contributions("channel")])
                case "hear":
                    for _ in range(times):
                        coordinator.hooks.register(input["event"], heard)
                case "emit and collect":
                    told = await coordinator.hooks.emit_and_collect(input["event"], {{}}, 10.0)
                    return ToolResult(output=[len(one["v"]) for one in told])
                case "emit":
                    result = await coordinator.hooks.emit(input["event"], {{}})
                    return ToolResult(output=len(result.context_injections) or int(result.context_injection == "y"))
                case "raise":
                    raise ValueError("x" * size)
                case _:
                    return ToolResult(output="x" * size)
            return ToolResult(output="done")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Talker(coordinator))
"""

_CONTEXT = context_code(
    """
    def __init__(self):
        self.messages, self.told = [], []

    async def add_message(self, message):
        self.messages.append(message)
        self.told.append(1)

    async def set_messages(self, messages):
        self.messages = list(messages)
        self.told = [len(messages)]

    async def get_messages_for_request(self, token_budget=None, provider=None):
        return [[len(one["content"]) for one in self.messages], self.told]
    """
)


def _talkers(*names: str) -> list[dict[str, Any]]:
    return [entry_of(f"hooks-{name}", _TALKER.format(name=name)) for name in names]


def _message(size: int) -> dict[str, Any]:
    return {"role": "user", "content": "x" * size}


# --- what is said in a conversation


async def test_a_result_too_large_for_the_conversation_fails_alone(open_session: OpenSession) -> None:
    async with open_session(tools=[entry_of("tool-talker", _TALKER.format(name="talker"))]) as session:
        for order in ({"size": 3 * _MIB}, {"act": "raise", "size": 3 * _MIB}):
            answer = await called(session, "talker", **order)
            assert answer["success"] is False
            assert len(json.dumps(answer)) < 40_000  # a message, and the end of a traceback
        answer = await called(session, "talker", size=3 * _MIB)
        assert answer["error"]["type"] == "OverLimitError"
        assert "`tool-talker` answered with 3 MiB" in answer["error"]["message"]
        assert len((await called(session, "talker", size=_MIB))["output"]) == _MIB
        (context, tool) = (module for module in session.modules if module.module in ("context-simple", "tool-talker"))
        assert (context.restarts, tool.restarts) == (0, 0)


@pytest.mark.exhaustive
async def test_a_large_conversation_reaches_a_fresh_context_in_parts(open_session: OpenSession) -> None:
    entry = entry_of("context-x", _CONTEXT)
    async with open_session(context=entry) as session:
        context = session.coordinator.get("context")
        sizes = [3 * _MIB + number for number in range(6)]
        for size in sizes:
            await context.add_message(_message(size))
        for _ in range(2):
            await kill(session, kind="context")
            held, told = await context.get_messages_for_request()
            assert held == sizes
            assert told == [2, 1, 1, 1, 1]
        with pytest.raises(OverLimitError, match="the return value is more than one message holds"):
            await context.get_messages()
        await context.add_message(_message(1))
        assert (await context.get_messages_for_request())[0] == [*sizes, 1]


@pytest.mark.exhaustive("values")
@pytest.mark.parametrize("held", ['["x" * 3_000_000] * 6', "[[0] * 100_000] * 3"], ids=["bytes", "values"])
async def test_a_context_that_returns_with_too_much_is_left_as_it_is(held: str, open_session: OpenSession) -> None:
    keeper = _CONTEXT.replace(
        "self.messages, self.told = [], []", f"self.messages, self.told = [dict(content=c) for c in {held}], []"
    )
    entry = entry_of("context-x", keeper)
    async with open_session(context=entry) as session:
        context = session.coordinator.get("context")
        sizes, _ = await context.get_messages_for_request()
        for _ in range(2):
            await kill(session, kind="context")
            await context.add_message(_message(1))
            assert await context.get_messages_for_request() == [[*sizes, 1], [1]]


async def test_a_message_beyond_the_contexts_room_is_refused(open_session: OpenSession) -> None:
    loop = """
        said = 0
        try:
            for _ in range(int(prompt)):
                await context.add_message({"role": "user", "content": "x" * 6_000_000})
                said += 1
        except Exception as error:
            return f"{said} {type(error).__name__}: {error}"
        return str(said)
    """
    orchestrator = entry_of("loop-x", loop_code(loop))
    entry = entry_of("context-x", _CONTEXT)
    async with open_session(context=entry, orchestrator=orchestrator) as session:
        assert await session.execute("1") == "1"
        answer = await session.execute("40")
        assert answer.startswith("4 OverLimitError: the conversation takes 28.6 MiB of the 32 MiB that it may")
        assert runtime_of(session).journal.weight < 32 * _MIB
        context = session.coordinator.get("context")
        assert (await context.get_messages_for_request())[0] == [6_000_000] * 5
        await context.clear()
        assert await session.execute("2") == "2"


_ESCAPED = """
    from amplifier_core.models import ToolResult

    class Filler:
        name = "filler"
        description = "answers with what takes six times as much as JSON, a little less each time"
        input_schema = {"type": "object"}
        size = 600_000.0

        async def execute(self, input):
            self.size *= 0.8
            return ToolResult(output={"v": chr(1) * int(self.size / 0.8)})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Filler())
"""


def _scripted(*turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a provider that calls a turn's tools all at once, one reply for each list, and then only talks."""
    replies = [{"tool_calls": turn} for turn in turns]
    return {"module": "provider-mock", "config": {"responses": replies, "fallback": "and on it goes"}}


async def _answers_again(session: Session) -> None:
    """Check that a session whose conversation is full goes on, and that clearing it gives everything back."""
    journal = runtime_of(session).journal
    for prompt in ("second", "x" * 3_000, "fourth"):
        assert await session.execute(prompt) == "and on it goes"
    context = session.coordinator.get("context")
    said = [one["content"] for one in journal.messages() if one["role"] == "user" and len(one["content"]) < 4_000]
    assert said == ["first", "second", "x" * 3_000, "fourth"]
    await kill(session, kind="context")
    assert await session.execute("fifth") == "and on it goes"
    await context.clear()
    assert (journal.weight, journal.room) == (0, journal.max_weight * 3 // 4)
    assert await session.execute("sixth") == "and on it goes"
    assert all(module.restarts == (module.kind == "context") for module in session.modules)


@pytest.mark.exhaustive("[1]", "1")
@pytest.mark.parametrize("per_reply", [1, 40])
async def test_results_that_fill_the_conversation_leave_room_for_turns(
    per_reply: int, open_session: OpenSession
) -> None:
    side_by_side = per_reply > 1
    code = _TALKER.format(name="filler") if side_by_side else _ESCAPED
    calls = [{"name": "filler", "arguments": {"size": 480_000} if side_by_side else {}}] * per_reply
    async with open_session(
        tools=[entry_of("tool-filler", code)],
        orchestrator={"module": "loop-basic", "config": {"max_iterations": 60}},
        context={"module": "context-simple", "limits": {"memory_max": "128M"}},
        providers=[_scripted(*[calls] * (40 // per_reply))],
    ) as session:
        journal = runtime_of(session).journal
        if side_by_side:
            with pytest.raises(OverLimitError, match="4 MiB are kept for what the session itself has to say"):
                await session.execute("first")
        else:
            assert await session.execute("first") == "and on it goes"
        assert journal.room < 500_000
        assert journal.weight < journal.max_weight * 4 // 5
        called = [call["id"] for one in journal.messages() for call in one.get("tool_calls", ())]
        assert [one["tool_call_id"] for one in journal.messages() if one["role"] == "tool"] == called
        await _answers_again(session)


# --- what is gathered


async def test_what_one_modules_contributors_answer_leaves_room_for_the_others(open_session: OpenSession) -> None:
    async with open_session(hooks=_talkers("greedy", "plain")) as session:
        await called(session, "greedy", act="contribute", size=3 * _MIB, times=12)
        await called(session, "plain", act="contribute", size=100_000, times=3)
        assert (await called(session, "plain", act="collect"))["output"] == [3 * _MIB, *[100_000] * 3]
        assert [len(one) for one in await session.coordinator.collect_contributions("channel")][1:] == [100_000] * 3


async def test_what_one_modules_handlers_answer_leaves_room_for_the_others(open_session: OpenSession) -> None:
    async with open_session(hooks=_talkers("greedy", "plain")) as session:
        for name, size, times in (("greedy", 3 * _MIB, 12), ("plain", 100_000, 3)):
            for event, action in (("x:modified", "modify"), ("x:injected", "inject_context")):
                await called(session, name, act="hear", event=event, action=action, size=size, times=times)
        told = await called(session, "plain", act="emit and collect", event="x:modified")
        assert told["output"] == [3 * _MIB, *[100_000] * 3]
        assert (await called(session, "plain", act="emit", event="x:injected"))["output"] == 4


# --- what stands open

_OPENER = (
    RAW_WIRE
    + """
    REQUEST, EMIT = 3, 5

    class Opener:
        name = "opener"
        description = "asks what is not answered"
        input_schema = {"type": "object"}

        def __init__(self, coordinator):
            self._coordinator = coordinator

        async def execute(self, input):
            heard, go_on = [], asyncio.Event()

            async def hear(event, data):
                heard.append(len(data["v"]))
                if len(heard) == input["times"]:
                    go_on.set()
                await go_on.wait()

            hooks = self._coordinator.hooks
            hooks.register("x:open", hear)
            if not input.get("raw"):
                await asyncio.gather(*(hooks.emit("x:open", {"v": "x" * input["size"]}) for _ in range(input["times"])))
                return ToolResult(output=sum(heard))
            connection, body = wire(), msgpack.packb(["x:open", {"v": "x" * input["size"]}])
            connection.settimeout(30)

            def drain():
                buffer = bytearray(1 << 20)
                try:
                    while connection.recv_into(buffer):
                        pass
                except OSError:
                    pass

            threading.Thread(target=drain, daemon=True).start()
            for k in range(input["times"]):
                head = HEADER.pack(HEADER.size - 4 + len(body), REQUEST, 0, EMIT, 1_000_000 + k, 0, 0, 0, 0)
                connection.sendall(head + body)
            threading.Event().wait()

    async def mount(coordinator, config):
        await coordinator.mount("tools", Opener(coordinator))
"""
)


async def test_a_module_whose_open_requests_hold_too_much_is_ended_for_it(open_session: OpenSession) -> None:
    async with open_session(hooks=[entry_of("hooks-opener", _OPENER)]) as session:
        for _ in range(3):  # what was answered is held no more
            answer = await called(session, "opener", times=8, size=_MIB)
            assert answer["output"] == 8 * _MIB
        before = psutil.Process().memory_info().rss
        answer = await called(session, "opener", times=100, size=3 * _MIB, raw=True)
        assert answer["success"] is False
        (opener,) = (module for module in session.modules if module.module == "hooks-opener")
        (report,) = opener.exit_reports
        assert report.limit is not None
        assert (report.limit.name, report.limit.configured) == ("bytes of open requests", str(16 * _MIB))
        assert psutil.Process().memory_info().rss - before < 150 * _MIB
