"""The modules that ship with Paddock, together: one plan of them does a task in a repository, and survives accidents.

Each runs in a process of its own, at the level `ns`, with a person who is asked.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from host.authoring.installed_wheels import index_of
from integration.community import Heard, contents, listen, messages, until
from integration.session_internals import kill
from modules import shipped
from paddock import Session
from paddock.authorization.consent import ConsentAnswer, PlanReview
from paddock_sandbox.profile import IsolationLevel

_SECONDS = 90  # for a whole session on a busy machine; hit only by a hang
_BROKEN = "# adds two numbers, with the key AKIAIOSFODNN7EXAMPLE\necho $(($1 - $2))\n"
_TESTS = '[ "$(sh calculator.sh 2 3)" = 5 ] && echo all tests pass\n'


# What the specifications say of each event.
_NAMED = {
    "prompt:submit": {"prompt"},
    "prompt:complete": set(),
    "provider:request": {"provider", "messages", "parent_span_id", "iteration"},
    "provider:response": {"provider", "response", "usage", "parent_span_id", "iteration"},
    "tool:pre": {"tool_name", "tool_input", "parent_span_id", "iteration"},
    "tool:post": {"tool_name", "tool_input", "tool_result", "parent_span_id", "iteration"},
    "content_block:start": {"block_type", "block_index"},
    "content_block:end": {"block"},
    "message.end": {"status"},
}
_OF_OTHERS = {"artifact:write", "approval:required", "approval:granted", "task:agent_spawned"}  # than the loop


class Person:
    """Says yes to the plan and to every question, and keeps the questions."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        return ConsentAnswer.ACCEPT

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.questions.append(prompt.partition(":")[0])
        return "Allow once"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with a mistake in it, and tests that find it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "calculator.sh").write_text(_BROKEN)
    (folder / "tests.sh").write_text(_TESTS)
    for command in (
        ["init", "-q", "-b", "trunk"],
        ["config", "user.name", "Ada"],
        ["config", "user.email", "ada@example.org"],
        ["add", "."],
        ["commit", "-q", "-m", "Begin"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True, timeout=60)
    return folder


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An index with what the modules depend on, but for providers, as it is installed here."""
    used = [one for one in shipped.IDS if not one.startswith("provider-")]
    wanted = [one for module_id in used for one in shipped.project(module_id).get("dependencies", ())]
    with index_of(monkeypatch, *shipped.installed_for(wanted)):
        yield


def scripted(*replies: Any, deltas: bool = False) -> list[dict[str, Any]]:
    """Return the providers of a plan whose model answers with these: a text, or a list of tool calls by name."""
    responses = [
        reply
        if isinstance(reply, str)
        else {"text": "Next.", "tool_calls": [{"name": name, "arguments": given} for name, given in reply]}
        for reply in replies
    ]
    return [{"module": "provider-mock", "config": {"responses": responses, "deltas": deltas}}]


def _fields_missing(events: list[Heard]) -> dict[str, set[str]]:
    """Return what the events lack of their fields, by event, and every event that did not come."""
    ids = {"session_id", "turn_id", "span_id"}
    came = {event.event: event.data.keys() for event in events}
    lacking = {name: (fields | ids) - came.get(name, set()) for name, fields in _NAMED.items()}
    return {name: fields for name, fields in lacking.items() if fields}


def assert_whole(conversation: list[dict[str, Any]]) -> None:
    """Every tool call has exactly one answer, right after the reply that made it."""
    open_calls: list[str] = []
    for message in conversation:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert open_calls == []
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert open_calls == []


@pytest.mark.usefixtures("packages")
async def test_one_plan_of_them_does_a_task_in_a_repository(ns: IsolationLevel, work: Path) -> None:
    todos = [{"content": "Mend the calculator", "status": "in_progress"}, {"content": "Commit", "status": "pending"}]
    mended = {"file_path": "calculator.sh", "old_string": "$1 - $2", "new_string": "$1 + $2"}
    read = ("read_file", {"file_path": "calculator.sh"})
    loop = {"module": "loop-streaming", "config": {"show_messages": True}}
    plan = {
        "session": {"orchestrator": loop, "context": {"module": "context-persistent"}},
        "providers": scripted(
            [("todo", {"action": "create", "todos": todos}), ("grep", {"pattern": "adds two"})],
            [("web_fetch", {"url": "http://192.168.0.1/"})],
            [read, ("bash", {"command": "sh tests.sh"})],
            [("edit_file", mended)],
            [("bash", {"command": "sh tests.sh"}), ("task", {"agent": "reviewer", "instruction": "Is it right?"})],
            [("bash", {"command": "git commit -qam 'Add instead of subtracting' && git log --oneline"})],
            "It is done: {last_tool_result}",
        ),
        "tools": [
            *({"module": one} for one in shipped.PORTABLE if one.startswith("tool-") and one != "tool-bash"),
            {
                "module": "tool-bash",
                "permissions": {"read": ["."], "write": [".", ".git"], "run": ["sh", "bash", "git"]},
            },
        ],
        "hooks": [{"module": module} for module in shipped.IDS if module.startswith("hooks-")],
        "agents": {"reviewer": {"description": "reviews", "providers": scripted([read], "I see {last_tool_result}")}},
    }
    person = Person()
    with anyio.fail_after(_SECONDS):
        async with Session(plan, working_dir=work, isolation=ns, consent=person, approval=person) as session:
            events, others = listen(session, *_NAMED), listen(session, *_OF_OTHERS)
            session.coordinator.session_state["turn_id"] = "the turn"
            answer = await session.execute("mend the calculator")
            conversation = await messages(session)
            results = await contents(session, "tool")
            modules = session.modules
    assert answer.startswith("It is done: ") and "Add instead of subtracting" in answer
    assert subprocess.check_output(["git", "status", "--porcelain", "-uno"], cwd=work, timeout=60) == b""
    assert "$1 + $2" in (work / "calculator.sh").read_text()
    assert_whole(conversation)
    assert "AKIA" not in str(conversation) and "[REDACTED:aws]" in results[3]
    assert "calculator.sh" in results[1] and "192.168.0.1" in results[2]
    assert "$1 - $2" in results[3] and '"returncode": 1' in results[4]
    assert "all tests pass" in results[6] and "$1 + $2" in results[7]
    assert person.questions == ["web_fetch", "bash", "edit_file", "bash", "task", "bash"]
    assert {(module.level, module.restarts) for module in modules} == {("ns", 0)}
    assert _fields_missing(events) == {}
    assert {event.event for event in others if event.data["turn_id"] == "the turn"} == _OF_OTHERS
    assert {event.data["turn_id"] for event in others if event.data["session_id"] == session.session_id} == {"the turn"}
    logged = [json.loads(line)["event"] for line in (work / "session.jsonl").read_text().splitlines()]
    assert {"prompt:submit", "tool:pre", "message.end", "session:end"} <= set(logged)


# --- what an application and hooks have of the loops


async def test_an_application_names_its_turn_steers_it_and_sets_a_goal(ns: IsolationLevel, work: Path) -> None:
    judged = ("NOT REACHED: it is not told", "told", "REACHED: it is")
    plan = {
        "session": {"orchestrator": {"module": "loop-streaming"}, "context": {"module": "context-simple"}},
        "providers": scripted([("list_directory", {"path": "."})], "in a moment", *judged, deltas=True),
        "tools": [{"module": "tool-filesystem"}],
    }
    person = Person()
    with anyio.fail_after(_SECONDS):
        async with Session(plan, working_dir=work, isolation=ns, consent=person, approval=person) as session:
            state: Any = session.coordinator.session_state
            state["turn_id"], state["goal"] = "their turn", {"condition": "the secret is told", "turns_used": 0}
            steer = session.coordinator.get_capability("session.steer")
            session.coordinator.hooks.register("tool:post", lambda event, data: steer("be quick"))
            events = listen(session, "tool:pre", "llm:stream_block_delta", "orchestrator:goal_progress", "message.end")
            assert await session.execute("tell me") == "told"
            said = await contents(session, "user")
            assert (state.get("turn_id"), state["goal"]) == (None, None)
    assert {(event.data["turn_id"], event.data["session_id"]) for event in events} == {
        ("their turn", session.session_id)
    }
    assert said[:2] == ["tell me", "be quick"] and "it is not told" in said[2]
    pieces = [event.data["text"] for event in events if event.event == "llm:stream_block_delta"]
    assert pieces == ["Next.", "in", " a", " moment", "told"]
    assert [event.data["state"] for event in events if "goal" in event.event] == ["continuing", "achieved"]
    assert events[-1].event == "message.end"


# --- accidents

_WAITING = {"provider": [{"module": "provider-mock", "config": {"responses": [{"text": "late", "delay": 3600}]}}]}


def _delegating(orchestrator: dict[str, Any], *replies: Any) -> dict[str, Any]:
    """Return a plan whose first reply calls two tools, one of which waits until something happens to it."""
    agent = {"description": "takes an hour", "providers": _WAITING["provider"]}
    first = [("list_directory", {"path": "."}), ("task", {"agent": "sleeper", "instruction": "rest"})]
    return {
        "session": {"orchestrator": orchestrator, "context": {"module": "context-persistent"}},
        "providers": scripted(first, *replies),
        "tools": [{"module": "tool-filesystem"}, {"module": "tool-task"}],
        "agents": {"sleeper": agent},
    }


@pytest.mark.exhaustive("tool killed", "context killed")
@pytest.mark.parametrize(
    ("accident", "orchestrator"),
    [
        ("tool killed", {"module": "loop-basic"}),
        ("context killed", {"module": "loop-streaming"}),
        ("turn cancelled", {"module": "loop-events", "config": {"planning": False}}),
    ],
)
async def test_an_accident_in_a_turn_leaves_no_call_open(
    accident: str, orchestrator: dict[str, Any], ns: IsolationLevel, work: Path
) -> None:
    plan = _delegating(orchestrator, "I went on: {last_tool_result}", "still here")
    person = Person()
    with anyio.fail_after(_SECONDS):
        async with Session(plan, working_dir=work, isolation=ns, consent=person, approval=person) as session:
            waiting = listen(session, "session:fork")
            ended = listen(session, "message.end")
            turn = asyncio.create_task(session.execute("go"))
            await until(waiting)
            if accident == "turn cancelled":
                session.cancel(immediate=True)
                assert await turn == "Next."
                session.coordinator.cancellation.reset()
            else:
                if accident == "context killed":
                    await kill(session, name="context-persistent")
                await kill(session, name="tool-task")
                assert "tool-task" in await turn
            conversation = await messages(session)
            assert await session.execute("again")
            later = await messages(session)
            own = [event.data for event in ended if event.data["session_id"] == session.session_id]
    assert_whole(later)
    assert [message["role"] for message in conversation[:4]] == ["user", "assistant", "tool", "tool"]
    assert later[: len(conversation)] == conversation
    assert [data["status"] for data in own] == ["cancelled" if accident == "turn cancelled" else "success", "success"]
