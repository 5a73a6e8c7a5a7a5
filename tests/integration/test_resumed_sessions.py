"""A session whose host is killed goes on: nothing is lost, nothing is repeated, nothing is said that is not known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import Terminal, paddock, wait_until
from integration.conftest import WriteModule
from integration.probe import tool_code
from integration.tricky_tool import json_output, plan_of
from paddock.session.journals.journal_file import Kind
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import Meta, Turn, encoded
from support.examples import repeating

pytestmark = pytest.mark.usefixtures("commands_end")

_SECONDS = 60  # hit only by a hang
_MARKING = tool_code(
    "mark",
    """
    from pathlib import Path
    with open("marks.txt", "a") as file:
        file.write(input["what"] + "\\n")
    while input.get("waits"):
        await asyncio.sleep(60)
    return ToolResult(output=f"marked {input['what']}")
    """,
)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a home and state of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _plan(work: Path, write_module: WriteModule, responses: list[Any], context: object = "context-simple") -> str:
    source = write_module("tool-mark", _MARKING)
    return plan_of(
        work,
        session={"orchestrator": "loop-basic", "context": context},
        providers=[{"module": "provider-mock", "config": {"responses": responses, "fallback": "{last_tool_result}"}}],
        tools=[{"module": "tool-mark", "source": source, "permissions": {"write": ["."]}}],
    )


def _calls(*calls: dict[str, object]) -> dict[str, object]:
    return {"tool_calls": [{"name": "mark", "arguments": call} for call in calls]}


def _start(plan: str, prompt: str) -> subprocess.Popen[bytes]:
    """Start a host that is going to be killed, which leaves its temporary folder for the next to remove."""
    command = [sys.executable, "-c", "from paddock.cli import main; main()", "run", plan, prompt, "--trust-plan"]
    quiet, environ = subprocess.DEVNULL, {**os.environ, "TMPDIR": str(Path.cwd().parent)}
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, stdin=quiet, env=environ)


def _has(marks: Path, what: str) -> bool:
    return marks.exists() and what in marks.read_text().split()


def _has_ended(tool: str) -> bool:
    """Whether the end of a tool's first call of the second request is in the one journal that there is."""
    kept, _ = next(iter(Journals().all(lambda error: None)))
    return sum(1 for call in kept.calls.values() if call.tool == tool and call.ended is not None) == 2


@pytest.mark.parametrize(
    "context", ["context-simple", *repeating(({"module": "context-persistent", "state": "keep"},))]
)
def test_a_killed_session_goes_on(work: Path, write_module: WriteModule, context: object) -> None:
    calls = [_calls({"what": "a"}), _calls({"what": "b"}, {"what": "c", "waits": True})]
    plan = _plan(work, write_module, [*calls, "never"], context)
    host = _start(plan, "first")
    try:
        wait_until(lambda: _has(work / "marks.txt", "c") and _has_ended("mark"))
    finally:
        host.kill()
        host.wait()
    (listed,) = json_output(paddock("sessions", "list", "--json"))["sessions"]
    assert (listed["state"], listed["prompt"], listed["turns"]) == ("interrupted", "first", 1)
    assert [one["tool"] for one in listed["unknown"]] == ["mark"]

    _plan(work, write_module, ["resumed"], context)
    resumed = paddock("run", plan, "go on", "--resume", listed["id"][:8], "--trust-plan", "--json")
    assert json_output(resumed)["response"] == "resumed", resumed.stderr
    assert "its host was killed during turn 1" in resumed.stderr
    assert "mark {'what': 'b'}: had ended; its result is in the conversation now" in resumed.stderr
    assert "mark {'what': 'c', 'waits': True}: outcome unknown: it may have run" in resumed.stderr

    shown = json_output(paddock("sessions", "show", "last", "--json"))
    assert shown["session"]["state"] == "ended"
    texts = [(one["role"], one["content"]) for one in shown["messages"] if isinstance(one["content"], str)]
    assert [text for role, text in texts if role == "user"] == ["first", "go on"]
    results = [text for role, text in texts if role == "tool"]
    assert results[:2] == ["marked a", "marked b"] and "may have run" in results[2] and len(results) == 3
    assert (work / "marks.txt").read_text().split() == ["a", "b", "c"]
    audit = [json.loads(line) for line in (work.parent / "state/paddock/audit.jsonl").read_text().splitlines()]
    assert [one["session"] for one in audit if one["event"] == "session.lost"] == [listed["id"]]
    assert [one["interrupted"] for one in audit if one["event"] == "session.resumed"] == [True]


@pytest.mark.parametrize("command", ["chat", *repeating("run")])
def test_a_killed_session_is_mentioned_by_the_next_one_alone(work: Path, command: str) -> None:
    plan = plan_of(work)
    began = Meta(paddock="1", session="left-1-2", pid=7, plan=plan, digest="d", working_dir=str(work), modules={})
    journal = Journals().create("left-1-2")
    journal.append(Kind.META, encoded(began))
    journal.append(Kind.TURN, encoded(Turn(prompt="first")))
    journal.close()
    said = "the last session here did not end: its host was killed during turn 1; to go on with it: "
    started = paddock(command, plan, stdin="hello")
    assert f"{said}`paddock chat --resume left-1-2`\n" in started.stderr
    assert started.stdout == "You said: hello\n"
    resumed = paddock(command, "--continue", stdin="more", cwd=work)
    assert (resumed.stdout, resumed.returncode) == ("You said: more\n", 0)
    assert said not in resumed.stderr and "2 messages, 1 turn\n" in resumed.stderr


def test_a_changed_plan_is_asked_about(work: Path) -> None:
    assert paddock("run", plan_of(work), "first").returncode == 0
    plan = plan_of(work, tools=[{"module": "tool-filesystem"}])
    refused = paddock("run", plan, "more", "--resume", "last")
    assert refused.returncode == 4
    assert "the plan has changed" in refused.stderr
    assert "tool-filesystem is new: it will see the earlier conversation" in refused.stderr
    assert "--accept-changes" in refused.stderr
    done = paddock("run", plan, "more", "--resume", "last", "--accept-changes")
    assert (done.returncode, done.stdout) == (0, "You said: more\n")
    again = paddock("run", "a third time", "--resume", "last")  # with the plan that it had, which is no plan.yaml
    assert again.returncode == 0, again.stderr
    assert "4 messages, 2 turns" in again.stderr


def test_a_session_that_runs_is_not_taken_or_deleted(work: Path, write_module: WriteModule) -> None:
    plan = _plan(work, write_module, [_calls({"what": "a", "waits": True})])
    host = _start(plan, "first")
    try:
        wait_until(lambda: _has(work / "marks.txt", "a"))
        for command in (["run", plan, "more", "--resume", "last", "--trust-plan"], ["sessions", "delete", "last"]):
            refused = paddock(*command)
            assert refused.returncode == 1
            assert f"is in use by pid {host.pid}" in refused.stderr
            assert f"end it first: `kill {host.pid}`" in refused.stderr
        (listed,) = json_output(paddock("sessions", "list", "--json"))["sessions"]
        assert listed["state"] == "running"
    finally:
        host.kill()
        host.wait()


def test_sessions_are_listed_exported_and_deleted(work: Path, write_module: WriteModule) -> None:
    plan = _plan(work, write_module, [_calls({"what": "a"}), "the \x1b]0;title\x07end"])
    assert paddock("run", plan, "hello", "--trust-plan").returncode == 0
    assert paddock("run", plan, "not kept", "--trust-plan", "--no-journal").returncode == 0
    listed = paddock("sessions", "list")
    assert "hello" in listed.stdout and "ended" in listed.stdout and "not kept" not in listed.stdout
    lines = [json.loads(line) for line in paddock("sessions", "export", "last").stdout.splitlines()]
    assert [one["role"] for one in lines] == ["user", "assistant", "tool", "assistant"]
    markdown = paddock("sessions", "export", "last", "--markdown").stdout
    assert "## user\n\n> hello\n" in markdown and "the \x1b]0;title\x07end" in markdown
    with Terminal("sessions", "export", "last", "--markdown") as terminal:  # which obeys what it is sent
        assert terminal.exit_code() == 0
        assert "hello" in terminal.shown and "title" in terminal.shown and "\x1b]0;" not in terminal.shown
    would = json_output(paddock("sessions", "delete", "--older-than", "0s", "--dry-run", "--json"))["deleted"]
    assert len(would) == 1
    assert paddock("sessions", "delete", "--older-than", "1d").stdout == "deleted  nothing\n"
    assert json_output(paddock("sessions", "delete", "last", "--json"))["deleted"] == would
    assert json_output(paddock("sessions", "list", "--json"))["sessions"] == []
    (folder,) = (work.parent / "state/paddock").glob("journals")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("asked", ["nosuch", "../../etc/passwd"])
def test_a_session_that_is_not_there_is_an_error(work: Path, asked: str) -> None:
    for command in (["run", plan_of(work), "x", "--resume", asked], ["sessions", "show", asked]):
        done = paddock(*command)
        assert done.returncode == 1
        assert f"there is no session `{asked}`" in done.stderr


def test_a_damaged_end_is_set_aside_and_said(work: Path, write_module: WriteModule) -> None:
    plan = _plan(work, write_module, ["one", "two"])
    assert paddock("run", plan, "hello", "--trust-plan").returncode == 0
    (journal,) = (work.parent / "state/paddock/journals").iterdir()
    with journal.open("ab") as file:
        file.write(b"half a record")
    resumed = paddock("run", plan, "again", "--resume", "last", "--trust-plan")
    assert resumed.returncode == 0
    assert f"{journal.stem}.torn-1" in resumed.stderr
    assert (journal.parent / f"{journal.stem}.torn-1").read_bytes() == b"half a record"


def test_secrets_are_overwritten_in_the_journal(
    work: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-secret-value-12345")
    plan = plan_of(
        work,
        providers=[
            {
                "module": "provider-mock",
                "config": {"responses": ["it is ${MY_API_KEY}, is it not"]},
                "permissions": {"secrets": ["MY_API_KEY"]},
            }
        ],
    )
    assert paddock("run", plan, "is it sk-secret-value-12345?", "--trust-plan").returncode == 0
    (journal,) = (work.parent / "state/paddock/journals").iterdir()
    assert b"sk-secret" not in journal.read_bytes()
    messages = json_output(paddock("sessions", "show", "last", "--json"))["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant"]
    assert os.environ["MY_API_KEY"] not in json.dumps(messages)
