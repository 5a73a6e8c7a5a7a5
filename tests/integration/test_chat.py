"""`paddock chat` as people and scripts use it: a real terminal, a real session, and lines without a terminal."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.command_line import paddock
from integration.conftest import OpenSession, WriteModule
from integration.seen import Seen
from paddock.cli.chat.conversation import ChatConversation, Spending
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.render import Screen

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_OPEN = "\x1b[?2004h"  # pastes are told apart from keys as long as a line can be typed
_READY = "/help lists the commands"
_HOSTILE = "\x1b]0;owned\x07\x1b[2J╔══ Paddock asks, not a module\n\n&#27;[31m&#x202e;gnp\n\n```\n\x1b[2Jx\n```\n"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    """Write a plan whose model plays a script, with files to edit, and return its path."""

    def write(
        *responses: Any, loop: str = "loop-streaming", hooks: tuple[Any, ...] = (), tools: tuple[Any, ...] = ()
    ) -> Path:
        (tmp_path / "notes.txt").write_text("alpha\nbeta\n", encoding="utf-8")
        path = tmp_path / "plan.yaml"
        path.write_text(
            json.dumps(
                {
                    "session": {"orchestrator": loop, "context": "context-simple"},
                    "providers": [
                        {
                            "module": "provider-mock",
                            "config": {"responses": list(responses), "fallback": "You said: {prompt}"},
                        }
                    ],
                    "tools": [{"module": "tool-filesystem", "permissions": "workspace"}, *tools],
                    "hooks": list(hooks),
                }
            ),
            encoding="utf-8",
        )
        return path

    return write


def _edit(call_id: str = "1") -> dict[str, Any]:
    arguments = {"file_path": "notes.txt", "old_string": "beta", "new_string": "gamma"}
    return {"text": "I will **edit** it.", "tool_calls": [{"name": "edit_file", "id": call_id, "arguments": arguments}]}


def _chat(columns: int = 80, rows: int = 24, *options: str) -> Seen:
    return Seen(columns, rows, "chat", "--trust-plan", *options)


def _leave(terminal: Seen) -> None:
    terminal.type("\x04")
    assert terminal.exit_code() == 0


@pytest.mark.parametrize("columns", [pytest.param(80, marks=pytest.mark.exhaustive), 20])
def test_a_person_sees_text_change_question_and_outcome(
    plan: Callable[..., Path], tmp_path: Path, columns: int
) -> None:
    plan(_edit(), "# Done\n\nAll is *well*.", hooks=({"module": "hooks-approval"},))
    with _chat(columns, 40) as terminal:
        terminal.until("start")  # the session is not there yet
        terminal.type("fix it\r")
        terminal.until("Deny")
        terminal.until("deny:")
        asked = terminal.rows(all_of_them=True)
        assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "alpha\nbeta\n"
        terminal.type("1\n")
        terminal.until("well")
        terminal.until(_OPEN)
        rows = terminal.rows(all_of_them=True)
        _leave(terminal)
    assert "  I will edit it." in asked
    assert "    -beta" in asked and "    +gamma" in asked
    assert asked.index("    +gamma") < next(at for at, row in enumerate(asked) if row.startswith("┌──"))
    (done,) = [at for at, row in enumerate(rows) if row.startswith("● edit_file")]
    assert "notes.txt (ok," in " ".join(row.strip() for row in rows[done : done + 3])
    assert "  Done" in rows and "  All is well." in rows
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "alpha\ngamma\n"


def test_a_typed_file_goes_into_the_line_and_a_pasted_one_does_not(plan: Callable[..., Path], tmp_path: Path) -> None:
    plan("first: {prompt}", "second: {prompt}")
    (tmp_path / "granted").mkdir()
    (tmp_path / "large.txt").write_text("word " * 52_000, encoding="utf-8")  # a window has 128,000 tokens
    with _chat() as terminal:
        terminal.until(_OPEN)
        terminal.type("read @no\t\r")
        terminal.until("put into your line: notes.txt")
        terminal.until("first: read @notes.txt")
        terminal.until("beta")
        terminal.until(_OPEN)
        terminal.type("\x1b[200~see @notes.txt @nowhere.txt\x1b[201~ @large.txt @granted\r")
        terminal.until("`@notes.txt` stays text: it was pasted; type it to put the file in")
        terminal.until("`@granted` stays text: `granted` is a folder")
        terminal.until("large.txt is left out: with it the line takes about 65")
        terminal.until("second: see @notes.txt")
        terminal.until(_OPEN)
        _leave(terminal)


def test_what_a_model_writes_moves_and_imitates_nothing(plan: Callable[..., Path]) -> None:
    plan(_HOSTILE, {"tool_calls": [{"name": "x\x1b[2J\n> ", "arguments": {"path": "\x1b]0;a\x07"}}]}, "end")
    with _chat() as terminal:
        terminal.until(_OPEN)
        terminal.type("one\r")
        terminal.until("2Jx")
        terminal.until(_OPEN)
        terminal.type("two\r")
        terminal.until("end")
        terminal.until(_OPEN)
        rows = terminal.rows(all_of_them=True)  # which fails for a sequence that is none of ours
        _leave(terminal)
    assert r"  \x1b]0;owned\x07\x1b[2J╔══ Paddock asks, not a module" in rows
    assert not any(row.startswith(("╔", "┌")) for row in rows)
    assert "\u202e" not in "".join(rows) and r"\u202e" in "".join(rows)


def test_an_interruption_waits_for_a_tool_and_a_second_for_none(plan: Callable[..., Path], tmp_path: Path) -> None:
    sleeping = {"tool_calls": [{"name": "bash", "id": "slow", "arguments": {"command": "touch started; sleep 60"}}]}
    tools = ({"module": "tool-bash", "permissions": "shell"},)
    plan({"text": "wait", "delay": 60}, sleeping, "after: {last_tool_result}", tools=tools)
    with _chat() as terminal:
        terminal.until(_OPEN)
        terminal.type("one\r")
        terminal.until("waiting for the model")
        terminal.type("\x03")
        terminal.until("stopping at once")  # no tool runs
        terminal.until("interrupted; the conversation continues")
        terminal.until(_OPEN)
        terminal.type("two\r")
        terminal.until("bash touch started")
        terminal.type("\x03")
        terminal.until("stopping after the running tool call")
        terminal.type("\x03")
        terminal.until("stopping at once")
        terminal.until("interrupted; the conversation continues")
        terminal.until(_OPEN)
        terminal.type("three\r")
        # The context has an answer for the call that was cut off, so that the next request is a valid one.
        terminal.until("after: Error: the tool call was cancelled")
        terminal.until(_OPEN)
        terminal.type("\x03")
        terminal.until("again ends the cha")
        terminal.type("\x03")
        assert terminal.exit_code() == 0


def test_a_provider_that_fails_or_dies_does_not_end_the_chat(
    plan: Callable[..., Path], tmp_path: Path, write_module: WriteModule
) -> None:
    dying = """
        import os

        from amplifier_core.models import ToolResult

        class Dying:
            name = "dying"
            description = "Dies."
            input_schema = {"type": "object", "properties": {}}

            async def execute(self, input):
                os._exit(3)

        async def mount(coordinator, config):
            await coordinator.mount("tools", Dying())
    """
    source = write_module("tool-dying", dying)
    plan(
        {"error": {"type": "AuthenticationError", "message": "no such key"}},
        {"tool_calls": [{"name": "dying", "arguments": {}}]},
        "it went on",
        tools=({"module": "tool-dying", "source": source},),
    )
    with _chat() as terminal:
        terminal.until(_OPEN)
        terminal.type("one\r")
        terminal.until("AuthenticationError: no such key")
        terminal.until("the key is missing or wrong")
        terminal.until(_OPEN)
        terminal.type("two\r")
        terminal.until(" (failed")
        terminal.until("it went on")
        terminal.until("module tool-dying")
        terminal.until(_OPEN)
        _leave(terminal)


def test_a_person_is_greeted_asked_and_answers_where_it_matters(plan: Callable[..., Path], tmp_path: Path) -> None:
    call = {"tool_calls": [{"name": "read_file", "arguments": {"file_path": "/etc/hostname"}}]}
    path = plan(
        call,
        "it was refused",
        tools=({"module": "tool-web", "permissions": {"net": ["a.example"]}},),
    )
    with Seen(100, 40, "chat") as terminal:
        terminal.until("yes, no or stop, and Enter:")
        asked = terminal.rows(all_of_them=True)
        terminal.type("yes\n")
        terminal.until("plan.yaml: model mock-model, 5 modules started")
        terminal.until(_OPEN)
        path.write_bytes((before := path.read_bytes()) + b"\n")
        terminal.type("/cost\r")
        terminal.until("plan.yaml changed since this session started")
        terminal.until(_OPEN)
        path.write_bytes(before)
        terminal.type("look\r")
        terminal.until("it was refused")
        terminal.until("yes, chat or no, and Enter:")
        terminal.type("chat\n")
        terminal.until("yes, no or stop, and Enter:")
        terminal.type("yes\n")
        terminal.until(_READY)
        terminal.until(_OPEN)
        terminal.type("/why tool-filesystem read /etc/hostname\r")
        terminal.until("allowed:")
        terminal.type("/model\r")
        terminal.until("mock-model answers; provider-mock has mock-model; `/model NAME` asks another one")
        terminal.type("/model other\r")
        terminal.until("provider-mock does not list the model other; provider-mock has mock-model")
        terminal.until("plan.yaml: model other, 5 modules started")
        terminal.until(_OPEN)
        terminal.type("/context\r")
        terminal.until("instruction")
        terminal.until("tokens in 4 messages")
        terminal.until("of the model's window of 128,000")
        terminal.until(_OPEN)
        _leave(terminal)
    assert not any(row.startswith("> ") for row in asked)  # no line is open before the answer
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["run", pytest.param("chat", marks=pytest.mark.exhaustive)])
def test_one_answer_opens_what_stays_closed_and_it_goes_on(
    plan: Callable[..., Path], tmp_path: Path, command: str
) -> None:
    arguments = {"file_path": ".github/new.yml", "content": "x"}
    path = plan(
        {"tool_calls": [{"name": "write_file", "arguments": arguments}]},
        "it is there",
        tools=({"module": "tool-web", "permissions": {"net": ["a.example"]}},),
    )
    (tmp_path / ".github").mkdir()
    text = yaml.safe_dump(json.loads(path.read_text(encoding="utf-8")), sort_keys=False)
    path.write_text(f"# mine\n{text}", encoding="utf-8")
    with Seen(100, 40, command, "plan.yaml", *(["look"] if command == "run" else [])) as terminal:
        terminal.until("yes, no, open or stop, and Enter:")
        terminal.type("open\n")
        terminal.until("plan.yaml is written")
        if command == "chat":
            terminal.until(_OPEN)
            terminal.type("look\r")
        terminal.until("it is there")
        if command == "chat":
            terminal.until(_OPEN)
            _leave(terminal)
        else:
            assert terminal.exit_code() == 0
    assert (tmp_path / ".github" / "new.yml").read_text(encoding="utf-8") == "x"
    written = path.read_text(encoding="utf-8")
    assert written.startswith("# mine\n")
    assert yaml.safe_load(written)["tools"][0]["permissions"] == {"preset": "workspace", "write": [".github"]}


@pytest.mark.exhaustive
def test_commands_show_the_session_and_a_grant_keeps_what_was_said(plan: Callable[..., Path], tmp_path: Path) -> None:
    path = plan("first answer")
    with _chat(100, 30) as terminal:
        terminal.until(_READY)
        terminal.type("hello\r")
        terminal.until("first answer")
        terminal.until(_OPEN)
        terminal.type("/tool\r")
        terminal.until("did you mean /tools?")
        terminal.type("/tools\r")
        terminal.until("read_file")
        terminal.type("/cost\r")
        terminal.until("1 request; tokens:")
        terminal.type("/grant tool-filesystem read=/etc/hostname\r")
        terminal.until("Paddock asks, not a module")
        terminal.until("yes, chat or no, and Enter:")
        terminal.type("yes\n")
        terminal.until("the plan is written")
        terminal.until(_READY)
        terminal.type("/why tool-filesystem read /etc/hostname\r")
        terminal.until("allowed:")
        terminal.type("/grant tool-filesystem read=/etc/hostname\r")
        terminal.until("says that of tool-filesystem already")
        (path.parent / ".vscode").mkdir()
        terminal.type("/grant tool-filesystem write=.vscode\r")
        terminal.until("may run its code")
        terminal.until("yes, chat or no, and Enter:")
        terminal.type("no\n")
        terminal.until("the plan is not changed")
        terminal.type("/clear\r")
        terminal.until("is cleared")
        terminal.type("/exit\r")
        assert terminal.exit_code() == 0
    (entry,) = yaml.safe_load(path.read_text(encoding="utf-8"))["tools"]
    assert entry["permissions"] == {"preset": "workspace", "read": ["/etc/hostname"]}


def test_a_grant_is_asked_about_once_and_taken_back_by_an_interruption(plan: Callable[..., Path]) -> None:
    path = plan("first answer", "second answer", "third answer")
    before = path.read_bytes()
    with Seen(100, 30, "chat") as terminal:
        terminal.until(_READY)
        terminal.until(_OPEN)
        terminal.type("hello\r")
        terminal.until("first answer")
        terminal.until(_OPEN)
        terminal.type("/grant tool-filesystem read=/etc/hostname\r")  # outside, so that the plan's question shows where
        terminal.until("yes, no or stop, and Enter:")
        terminal.type("\x03")
        terminal.until("the plan is restored")
        terminal.until(_READY)
        assert path.read_bytes() == before
        terminal.until(_OPEN)
        path.write_bytes(before + b"# of somebody else\n")
        terminal.type("/grant tool-filesystem net=example.org\r")
        terminal.until("changed since this session started")
        path.write_bytes(before)
        terminal.until(_OPEN)
        terminal.type("/grant tool-filesystem net=example.org\r")
        terminal.until("yes, chat or no, and Enter:")
        terminal.type("yes\n")
        terminal.until(_READY)
        terminal.until(_OPEN)
        terminal.type("again\r")
        terminal.until("first answer")  # of another process, whose script begins anew
        terminal.until(_OPEN)
        rows = "\n".join(terminal.rows(all_of_them=True))
        _leave(terminal)
    assert rows.count("Paddock asks, not a module") == 2 and "look at it first" not in rows
    assert "example.org" in path.read_text(encoding="utf-8") and "hostname" not in path.read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_leaving_during_a_turn_waits_for_it_and_keeps_a_history(plan: Callable[..., Path], tmp_path: Path) -> None:
    plan({"text": "an answer", "delay": 1})
    with _chat() as terminal:
        terminal.until(_OPEN)
        terminal.type("\x1b[200~one\x1b[31m\r\ntwo\x1b[201~\r")
        terminal.until("waiting for the model")
        terminal.type("\x04")
        terminal.until("an answer")
        assert terminal.exit_code() == 0
    history = tmp_path / "state" / "paddock" / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+one\\x1b[31m\n+two\n" in history.read_text(encoding="utf-8")


def test_a_chat_ends_with_a_session_that_was_ended_and_says_how_to_go_on(plan: Callable[..., Path]) -> None:
    plan("one")
    with _chat() as terminal:
        terminal.until(_OPEN)
        (session,) = json.loads(paddock("ps", "--json").stdout)["sessions"]
        assert paddock("end", session["session"]).returncode == 0
        terminal.type("one\r")
        terminal.until("the session is over: an operator ended it")
        terminal.until("paddock chat --resume")
        assert terminal.exit_code() == 5


def test_without_a_terminal_a_line_is_answered_by_a_line(plan: Callable[..., Path]) -> None:
    plan("one", {"error": {"type": "RateLimitError", "message": "slow down"}}, "**three**")
    done = paddock("chat", stdin="a\n\nb\n/cost\n/nosuch\nc\n", environ={"PADDOCK": ""})
    assert done.stdout == "one\n**three**\n"
    assert done.returncode == 1, done.stderr
    assert "error: RateLimitError: slow down" in done.stderr and "hint: wait a moment" in done.stderr
    assert "there is no command /nosuch" in done.stderr


async def test_a_loop_that_ignores_it_leaves_no_call_open(open_session: OpenSession, write_module: WriteModule) -> None:
    rude = """
        import asyncio

        class Rude:
            async def execute(self, prompt, context, providers, tools, hooks, **more):
                if prompt == "read":
                    return str([message["role"] for message in await context.get_messages()])
                await context.add_message({"role": "user", "content": prompt})
                call = {"id": "1", "tool": "bash", "arguments": {}}
                await context.add_message({"role": "assistant", "content": "", "tool_calls": [call]})
                await hooks.emit("user:notification", {"message": "hanging"})
                await asyncio.sleep(3600)

        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Rude())
    """
    source = write_module("loop-rude", rude)
    async with open_session(orchestrator={"module": "loop-rude", "source": source, "permissions": {}}) as session:
        screen = Screen(io.StringIO())
        approval = TerminalApproval.at(screen, sys.stdin)
        conversation = ChatConversation(session, screen, approval, Spending(), None, is_verbose=False)
        hangs = asyncio.Event()
        session.coordinator.hooks.register("user:notification", lambda event, data: hangs.set())
        turn = asyncio.ensure_future(conversation.turn("hang"))
        await asyncio.wait_for(hangs.wait(), 60)
        for _ in range(3):  # the third does not wait for a loop that does not look
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
        outcome = await asyncio.wait_for(turn, 60)
        assert outcome.is_interrupted and outcome.answer is None
        assert (await conversation.turn("read")).answer == "['user', 'assistant', 'tool']"
