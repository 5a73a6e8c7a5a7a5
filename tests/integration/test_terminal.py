"""A person at a terminal: questions of modules, Ctrl-C, and what is escaped there."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.command_line import Terminal, paddock
from integration.conftest import WriteModule
from integration.tricky_tool import asking_plan, calling, plan_of

pytestmark = pytest.mark.usefixtures("commands_end")

_COLOURED = "It \x1b[31msaid: {last_tool_result}"


def test_without_a_terminal_a_question_is_answered_by_its_default(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    plan = asking_plan(
        tmp_path, write_module, tricky, timeouts=(60.0, 60.0), defaults=("allow", "deny"), answer=_COLOURED
    )
    done = paddock("run", plan, "go")
    assert done.stdout.startswith("It \x1b[31msaid: Denied")  # as it is, for a program
    for default in ("allow", "deny"):
        assert rf"so the answer to module `hooks-asking` (hook) is {default}: Run \x1b[2Jthis?" in done.stderr
    # What the hook says of the one result is shown with level and source.
    (line,) = [line for line in done.stderr.splitlines() if "owned" in line]
    assert line.startswith("warning: ") and r"done \x1b]0;owned\x07" in line


def test_a_person_is_asked_and_answers_by_number_or_name_or_not_in_time(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    plan = asking_plan(
        tmp_path, write_module, tricky, timeouts=(60.0, 60.0, 0.2), defaults=("deny",) * 3, answer=_COLOURED
    )
    with Terminal("run", plan, "go") as terminal:
        terminal.type("1\n")  # before there is a question: no answer to it
        terminal.until(r"Run \x1b[2Jthis?")
        terminal.until("without an answer within 60 s it is deny: ")
        terminal.type("7\n")
        terminal.until("type a number from 1 to 2")
        terminal.type("1\n")
        terminal.until(r"done \x1b]0;owned\x07")  # the tool was called
        terminal.until("without an answer within 60 s it is deny: ")
        terminal.type("deny\n")
        assert "owned" not in terminal.until("no answer; the default is deny")
        assert "owned" not in terminal.until(r"It \x1b[31msaid: Denied")
        assert terminal.exit_code() == 0


def test_the_second_interruption_ends_a_turn_at_once(tmp_path: Path, tricky: str) -> None:
    tools = [{"module": "tool-tricky", "source": tricky, "permissions": {}}]
    with Terminal("run", plan_of(tmp_path, providers=calling("tricky", do="hang"), tools=tools), "go") as terminal:
        terminal.until('tricky {"do": "hang"}')
        terminal.type("\x03")
        terminal.until("Ctrl-C again stops at once")
        terminal.type("\x03")
        terminal.until("stopping at once")
        assert terminal.exit_code() == 130


def test_the_first_interruption_withdraws_a_question_and_lets_the_turn_end(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    with Terminal("run", asking_plan(tmp_path, write_module, tricky), "go") as terminal:
        terminal.until("without an answer within 60 s it is deny: ")
        terminal.type("\x03")
        terminal.until("Ctrl-C again stops at once")
        assert terminal.exit_code() == 130


def test_an_interruption_ends_a_single_call_at_once(tricky: str) -> None:
    with Terminal("call", tricky, "tricky", '{"do": "hang"}') as terminal:
        terminal.until("waiting for tricky")
        terminal.type("\x03")
        assert terminal.exit_code() == 130


def test_an_interruption_while_modules_start_ends_the_run(tmp_path: Path, write_module: WriteModule) -> None:
    code = "import asyncio\nasync def mount(coordinator, config):\n    print('mounting')\n    await asyncio.sleep(3600)"
    tools = [{"module": "tool-slow", "source": write_module("tool-slow", code)}]
    with Terminal("run", plan_of(tmp_path, tools=tools), "go") as terminal:
        terminal.until("starting tool-slow")
        terminal.type("\x03")
        assert terminal.exit_code() == 130
