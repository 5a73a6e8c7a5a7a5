"""A client of servers that are right, odd or hostile, each a process of its own."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock_sdk.mcp import client as client_module
from paddock_sdk.mcp import messages
from paddock_sdk.mcp.client import Client, McpError, Reactions, RefusedError, ServerEndedError
from support.children import children_of_this_process
from support.examples import examples

_ODD = [sys.executable, "-I", "-S", str(Path(__file__).with_name("odd_server.py"))]
_LEGACY = "2025-11-25"
_ASKING: contextvars.ContextVar[str] = contextvars.ContextVar("asking", default="nobody")


class Seen:
    """What a server asked for and told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.asked: list[tuple[str, Any]] = []
        self.changes = 0

    def reactions(self) -> Reactions:
        return Reactions(
            elicit=self._elicit,
            roots=lambda: [{"uri": "file:///srv", "name": "srv"}],
            tools_changed=self._change,
            line=lambda stream, text: self.lines.append((stream, text)),
        )

    async def _elicit(self, params: Any) -> Any:
        self.asked.append((_ASKING.get(), params))
        if params["message"] == "wait":
            await asyncio.Event().wait()
        if params["message"] == "fail":
            raise RuntimeError("nobody is there")
        return {"action": "accept", "content": {"ok": True}}

    def _change(self) -> None:
        self.changes += 1


@asynccontextmanager
async def _odd(begins: str, reactions: Reactions | None = None) -> AsyncIterator[tuple[Client, Seen]]:
    seen = Seen()
    client = await Client.start([*_ODD, begins], reactions or seen.reactions())
    try:
        yield client, seen
    finally:
        await client.close()


def _said(result: Any) -> Any:
    return json.loads(result["content"][0]["text"])


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.005)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("version", [messages.MODERN, "2024-11-05"])
async def test_a_server_of_either_era_is_spoken_to(version: str) -> None:
    async with _odd(version) as (client, _):
        assert (client.version, client.server, client.instructions) == (version, "odd 1", "Be odd.")
        assert client.capabilities == {"tools": {"listChanged": True}}
        assert [tool["name"] for tool in await client.list_tools()] == ["tool 0 0", "tool 0 1"]
        told = _said(await client.call_tool("tells", {"x": 1}))
        assert told["arguments"] == {"x": 1}
        assert told.get("_meta", {}).get(messages.VERSION_KEY) == (version if version == messages.MODERN else None)
        assert await client.ask("prompts/list", {}) == {}
        with pytest.raises(RefusedError, match="there is no resources/list") as refused:
            await client.ask("resources/list", {})
        assert refused.value.code == messages.Code.METHOD_NOT_FOUND
        both = await asyncio.gather(*(client.call_tool("echoes", {"number": number}) for number in range(20)))
        assert [_said(one)["number"] for one in both] == list(range(20))


async def test_a_slow_server_of_the_new_era_is_not_taken_for_an_older(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROBE_SECONDS", 0.01)
    async with _odd("slow") as (client, _):
        assert client.version == messages.MODERN
        assert _said(await client.call_tool("echoes", {})) == {}


async def test_a_server_silent_to_the_first_question_is_of_an_older_era(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROBE_SECONDS", 0.01)
    async with _odd("mute") as (client, _):
        assert client.version == "2025-06-18"


@pytest.mark.parametrize(
    ("begins", "error", "words"),
    [
        ("1999-01-01", McpError, r"speaks version '1999-01-01' of the protocol; accepted are 2026-07-28, 2025-11-25"),
        ("dies", ServerEndedError, r"ended with exit code 3; its last lines:\n  line 3\n.*\n  line 7$"),
    ],
)
async def test_a_start_that_fails_says_why(begins: str, error: type[McpError], words: str) -> None:
    with pytest.raises(error) as failure:
        async with _odd(begins):
            pass
    assert re.search(words, str(failure.value), re.DOTALL)


async def test_a_silent_server_is_ended_and_its_programs_named() -> None:
    before = children_of_this_process()
    with pytest.raises(McpError, match=r"did not answer `initialize` within 0.1 s; its programs: sleep$"):
        await Client.start(["sleep", "1000"], seconds=0.1)
    assert children_of_this_process() <= before


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(McpError, match=r"the MCP server /nowhere/server cannot be started: .* No such file"):
        await Client.start(["/nowhere/server"])


async def test_tools_are_listed_page_by_page() -> None:
    async with _odd(_LEGACY) as (client, _):
        for kind, count in {"few": 2, "pages": 4, "many": 600}.items():
            await client.call_tool("lists", {"kind": kind})
            assert len({tool["name"] for tool in await client.list_tools()}) == count
        for kind, words in {"endless": "more than 100 pages", "none": "without a list of tools"}.items():
            await client.call_tool("lists", {"kind": kind})
            with pytest.raises(McpError, match=words):
                await client.list_tools()


@pytest.mark.parametrize(
    ("arguments", "how"),
    [({"code": 7}, "ended with exit code 7"), ({"signal": signal.SIGSEGV}, r"was ended by signal 11 \(Segmentation")],
)
async def test_a_call_whose_server_dies_has_its_last_lines(arguments: Any, how: str) -> None:
    async with _odd(_LEGACY) as (client, seen):
        with pytest.raises(ServerEndedError, match=how) as ended:
            await client.call_tool("dies", arguments)
        assert str(ended.value).splitlines()[1:] == [f"  line {number}" for number in range(3, 8)]
        assert ("stderr", "line 0") in seen.lines
        with pytest.raises(ServerEndedError, match=how):
            await client.call_tool("echoes", {})


async def test_what_a_server_started_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_DRAIN_SECONDS", 0.05)
    async with _odd(_LEGACY) as (client, seen):
        with pytest.raises(ServerEndedError, match="exit code 4"):
            await client.call_tool("leaves_a_child", {})
        child = int(seen.lines[0][1])
        await _until(lambda: not _runs(child))


async def test_after_close_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CLOSE_SECONDS", 0.05)
    async with _odd(_LEGACY) as (client, _):
        hanging = asyncio.create_task(client.call_tool("hangs", {}))
        await asyncio.sleep(0)
        pid = client._process._transport.get_pid()
        assert _runs(pid)
    assert not _runs(pid)
    with pytest.raises(ServerEndedError, match="was closed"):
        await hanging


async def test_an_answer_beyond_the_bound_fails_its_call_alone() -> None:
    async with _odd(_LEGACY) as (client, _):
        for id in ("first", "last"):
            long, short = client.call_tool("is_long", {"id": id}), client.call_tool("echoes", {"x": 1})
            outcome, echoed = await asyncio.gather(long, short, return_exceptions=True)
            assert isinstance(outcome, McpError)
            assert re.search(r"answer to `tools/call` has 178\d{5} bytes, and 16777216 are allowed: \{", str(outcome))
            assert len(str(outcome)) < 350
            assert _said(echoed) == {"x": 1}


async def test_odd_output_is_passed_on_and_the_connection_goes_on() -> None:
    lines = ["listening", "", "42", '{"level": "info"}', "[]", '{"jsonrpc": "2.0", "result": {}}', "\x1b[31mred\u202e"]
    no_id = 'has an "id" that is neither a whole number nor a short text'
    async with _odd(_LEGACY) as (client, seen):
        assert _said(await client.call_tool("prints", {"lines": lines})) is None
        assert seen.lines == [
            ("stdout", "listening"),
            ("stdout", "42"),
            ("stdout", 'a message that does not say "jsonrpc": "2.0": {"level": "info"}'),
            ("stdout", "a message that is a batch, which is not taken: []"),
            ("stdout", f"a message that {no_id}: " + '{"jsonrpc": "2.0", "result": {}}'),
            ("stdout", r"\x1b[31mred\xe2\x80\xae"),
        ]
        with pytest.raises(McpError, match="answer to `tools/call` is nested deeper than 48 levels: "):
            await client.call_tool("is_deep", {})
        seen.lines.clear()
        with pytest.raises(RefusedError, match="no"):
            await client.call_tool("answers_others", {"ids": [1, 999, "1", "\x1b"]})
        assert [text for _, text in seen.lines] == [
            f"an answer to the request {id}, which was not made" for id in ("999", "'1'", r"'\x1b'")
        ]


async def test_a_hundred_malformed_messages_end_a_server() -> None:
    async with _odd(_LEGACY) as (client, _):
        await client.call_tool("prints", {"lines": ["{"] * 99 + ["text"] * 200})
        with pytest.raises(
            ServerEndedError, match="sent 100 malformed messages, the last of them a message that is not JSON"
        ):
            await client.call_tool("prints", {"lines": ["{"]})


async def test_a_flood_of_text_delays_a_call_and_no_more() -> None:
    async with _odd(_LEGACY) as (client, seen):
        assert _said(await client.call_tool("floods", {"lines": 5000})) is None
        assert seen.lines.count(("stdout", "y")) == 5000


async def test_progress_reaches_the_call_that_it_is_of() -> None:
    reports: list[Any] = [
        {"total": 2, "message": "half"},
        {"progressToken": 999},
        {"progressToken": [1]},
        {"progress": "2"},
        {"progress": 1.5, "total": "all", "message": None},
    ]
    found: list[object] = []
    async with _odd(_LEGACY) as (client, _):
        await client.call_tool("reports", {"reports": reports}, lambda *report: found.append(report))
        await client.call_tool("reports", {"reports": reports})
    assert found == [(1, 2, "half"), (1.5, None, "")]


async def test_a_server_of_an_older_era_asks_in_requests() -> None:
    questions = [
        ["elicitation/create", {"message": "sure?"}],
        ["roots/list", {}],
        ["ping", {}],
        ["sampling/createMessage", {"messages": []}],
        ["elicitation/create", {"message": "fail"}],
    ]
    async with _odd(_LEGACY) as (client, seen):
        _ASKING.set("the call")
        accepted, roots, pong, sampled, failed = _said(await client.call_tool("asks", {"questions": questions}))
    assert accepted == {"action": "accept", "content": {"ok": True}}
    assert seen.asked[0] == ("the call", {"message": "sure?"})
    assert roots == {"roots": [{"uri": "file:///srv", "name": "srv"}]}
    assert pong == {}
    assert sampled["code"] == messages.Code.METHOD_NOT_FOUND
    assert "'sampling/createMessage', which is not offered" in sampled["message"]
    assert failed == {"code": messages.Code.INTERNAL_ERROR, "message": "nobody is there"}


async def test_without_reactions_questions_are_declined() -> None:
    async with _odd(_LEGACY, Reactions()) as (client, _):
        questions = [["elicitation/create", {"message": "sure?"}], ["roots/list", {}]]
        assert _said(await client.call_tool("asks", {"questions": questions})) == [{"action": "decline"}, {"roots": []}]


async def test_a_question_that_is_taken_back_is_asked_no_longer() -> None:
    async with _odd(_LEGACY) as (client, _):
        await client.call_tool("takes_back", {})
        await _until(lambda: not client._questions)
        many = [["elicitation/create", {"message": "wait"}]] * 17
        asking = asyncio.create_task(client.call_tool("asks", {"questions": many}))
        await _until(lambda: len(client._questions) == 16)
        assert not asking.done()
    with pytest.raises(ServerEndedError):
        await asking


_QUESTIONS = {"a": {"method": "elicitation/create", "params": {"message": "sure?"}}, "b": {"method": "roots/list"}}


_WANTS = {
    "more than 10 times": {"resultType": "input_required", "inputRequests": _QUESTIONS, "requestState": "s"},
    "answered `tools/call` with 'task', not a result": {"resultType": "task"},
    "with 7, not a result": {"resultType": 7},
    "'input_required', not a result": {"resultType": "input_required", "inputRequests": []},
    "asked for None, which is not offered": {"resultType": "input_required", "inputRequests": {"a": 1}},
    "has 17 questions": {"resultType": "input_required", "inputRequests": dict.fromkeys("abcdefghijklmnopq")},
    "asked for 'sampling/createMessage', which is not offered": {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "sampling/createMessage"}},
    },
}


async def test_a_server_of_the_new_era_that_wants_too_much_fails_the_call() -> None:
    async with _odd(messages.MODERN) as (client, seen):
        for words, wants in _WANTS.items():
            with pytest.raises(McpError, match=words):
                await client.call_tool("wants_input", {"wants": wants})
        assert [params for _, params in seen.asked] == [{"message": "sure?"}] * 11
        assert _said(await client.call_tool("echoes", {})) == {}


@pytest.mark.parametrize("version", [messages.MODERN, _LEGACY])
async def test_a_cancelled_call_is_told_and_the_server_goes_on(version: str) -> None:
    async with _odd(version) as (client, seen):
        call = asyncio.create_task(client.call_tool("waits", {}))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        waited, cancelled = _said(await client.call_tool("which", {}))
        assert waited == cancelled
        assert not seen.lines


async def test_a_server_deaf_to_a_cancelled_call_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CANCEL_SECONDS", 0.05)
    async with _odd(_LEGACY) as (client, _):
        call = asyncio.create_task(client.call_tool("hangs", {}))
        other = asyncio.create_task(client.call_tool("echoes", {}))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(ServerEndedError, match=r"answered nothing within 0.05 s of a cancelled call"):
            await other


async def test_a_server_that_reads_nothing_is_not_written_to_for_ever() -> None:
    async with _odd(_LEGACY) as (client, _):
        calls = [asyncio.create_task(client.call_tool("hangs", {"x": "x" * (9 << 20)})) for _ in range(3)]
        for call in calls:
            with pytest.raises(ServerEndedError, match="did not read its standard input"):
                await call


async def test_a_server_without_an_output_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_DRAIN_SECONDS", 0.01)
    async with _odd(_LEGACY) as (client, _):
        with pytest.raises(ServerEndedError, match="closed its standard output"):
            await client.call_tool("closes_its_output", {})


@pytest.mark.parametrize("version", [messages.MODERN, _LEGACY])
async def test_changes_of_tools_are_told(version: str) -> None:
    async with _odd(version) as (client, seen):
        await client.call_tool("changes", {})
        assert seen.changes == 1


async def test_parameters_that_json_cannot_say_are_refused() -> None:
    async with _odd(_LEGACY) as (client, _):
        with pytest.raises(ValueError, match="JSON"):
            await client.call_tool("echoes", {"x": float("nan")})
        assert _said(await client.call_tool("echoes", {})) == {}


_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
_KEYS = st.sampled_from(["progressToken", "progress", "total", "message", "requestId", "inputRequests", "resultType"])
_PARAMS = st.dictionaries(_KEYS, _VALUES, max_size=4)
_METHODS = st.sampled_from(
    ["notifications/progress", "notifications/cancelled", "roots/list", "elicitation/create", "x"]
)
_MESSAGES = st.one_of(
    st.builds(messages.request, st.integers(0, 3) | st.text(max_size=2), _METHODS, _PARAMS),
    st.builds(messages.notification, _METHODS, _PARAMS),
    st.builds(messages.answer, st.integers(-1, 3), _PARAMS),
    st.builds(messages.failure, st.integers(-1, 3) | st.none(), st.integers(), st.text(), _VALUES),
)


@settings(max_examples=examples(200))
@given(st.lists(_MESSAGES, max_size=6))
def test_any_messages_of_a_server_raise_nothing_but_mcp_errors(sent: list[bytes]) -> None:
    async def receive() -> None:
        seen = Seen()
        client = Client(seen.reactions())
        written: list[bytes] = []
        with mock.patch.multiple(client._process, write=written.append, end=mock.Mock()):
            calls = [asyncio.create_task(client.call_tool("x", {}, lambda *report: None)) for _ in range(2)]
            await asyncio.sleep(0)
            client._process.pipe_data_received(1, b"".join(sent))
            for _ in range(5):
                await asyncio.sleep(0)
            client._process.gone.set_result("ended")
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, dict | McpError) for outcome in outcomes)
        assert all(not isinstance(messages.read(line[:-1]), messages.Malformed) for line in written)

    asyncio.run(receive())


async def test_environment_and_folder_are_those_of_the_start(tmp_path: Path) -> None:
    script = 'echo "$HELD $PWD" >&2; exit 5'
    with pytest.raises(
        ServerEndedError, match=f"exit code 5; its last lines:\n  yes {re.escape(os.fspath(tmp_path))}$"
    ):
        await Client.start(["/bin/sh", "-c", script], env={"HELD": "yes"}, cwd=tmp_path)
