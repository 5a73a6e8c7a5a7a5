"""The reference modules that guide a model's work, together: its list, reminders, status, delegation, approvals.

All from a plan that says nothing of permissions, with one yes, each in a process of its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.community import contents, listen
from paddock import Session
from paddock.authorization.consent import ConsentAnswer, PlanReview
from paddock_sandbox.profile import IsolationLevel

_SECONDS = 60  # for a whole session; hit only by a hang


class Person:
    """Says yes to the plan, and to each question what its first line has an answer for."""

    def __init__(self, **answers: str) -> None:
        self.review: PlanReview | None = None
        self.questions: list[str] = []
        self._answers = answers

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        self.review = review
        return ConsentAnswer.ACCEPT

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        assert (options, default) == (["Allow once", "Allow always", "Deny"], "deny")
        self.questions.append(prompt)
        return self._answers.get(prompt.partition(":")[0], "Deny")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(folder)], check=True, timeout=60)
    return folder


def replies(*replies: Any) -> list[dict[str, Any]]:
    """Return the providers of a plan whose model answers with these: a text, or a list of tool calls by name."""
    responses = [
        reply
        if isinstance(reply, str)
        else {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in reply]}
        for reply in replies
    ]
    return [{"module": "provider-mock", "config": {"responses": responses}}]


async def test_a_turn_is_planned_delegated_asked_about_and_done(ns: IsolationLevel, work: Path) -> None:
    todos = [{"content": "Hand out", "status": "in_progress"}, {"content": "Write", "status": "pending"}]
    plan = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": replies(
            [("todo", {"action": "create", "todos": todos})],
            [
                ("task", {"agent": "helper", "instruction": "write b"}),
                ("task", {"agent": "nobody", "instruction": "x"}),
            ],
            [("write_file", {"file_path": "a", "content": "one"})],
            [("write_file", {"file_path": "a", "content": "two"})],
            "{prompt}",
        ),
        "tools": [{"module": "tool-todo"}, {"module": "tool-task"}, {"module": "tool-filesystem"}],
        "hooks": [
            {"module": "hooks-status-context"},
            {"module": "hooks-todo-reminder", "config": {"every": 3}},
            {"module": "hooks-approval"},
        ],
        "agents": {
            "helper": {
                "description": "writes b",
                "providers": replies(
                    [("write_file", {"file_path": "b", "content": "b"})], "I read: {last_tool_result}"
                ),
            }
        },
    }
    person = Person(task="Allow once", write_file="Allow always")
    with anyio.fail_after(_SECONDS):
        async with Session(plan, working_dir=work, isolation=ns, consent=person, approval=person) as session:
            events = listen(session, "task:agent_spawned", "task:agent_completed", "session:fork", "approval:granted")
            answer = await session.execute("go")
            status, _ = await contents(session, "user")
            told = await contents(session, "tool")
            session_id = session.session_id
            on_the_host: Any = session.coordinator
            assert [item["content"] for item in on_the_host.todo_state] == ["Hand out", "Write"]
    assert "git branch: No commits yet on trunk" in status and f"working directory: {work}" in status
    assert "2 of 2 open.\n- [in progress] Hand out\n- [pending] Write\n" in answer  # the reminder, in the last request
    assert '"response": "I read: {' in told[1]
    assert f'"session_id": "{session_id}-' in told[1]
    assert "There is no agent `nobody`. The agents are:\n- helper: writes b" in told[2]
    assert (work / "a").read_text() == "two"
    assert (work / "b").read_text() == "b"
    # The second write of one path is not asked about again; the helper's hook asks for the helper's session.
    assert [question.partition(":")[0] for question in person.questions] == ["task", "task", "write_file", "write_file"]

    in_sub_sessions = [question for question in person.questions if f"in the sub-session '{session_id}-" in question]
    assert len(in_sub_sessions) == 1 and '"b"' in in_sub_sessions[0]
    by_name = [event.event for event in events if event.event != "approval:granted"]
    assert by_name == ["task:agent_spawned", "session:fork", "task:agent_completed"]
    assert person.review is not None
    proposed = {module.name: module.proposed_lines for module in person.review.modules}
    assert proposed["tool-task"] == ("calls without being handed it: spawn",)
