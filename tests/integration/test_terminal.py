"""A person at a terminal: questions of modules, Ctrl-C, and what is escaped there."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.command_line import (
    Terminal,
    paddock,
)
from integration.conftest import WriteModule
from integration.tricky_tool import asking_plan, calling, plan_of

pytestmark = pytest.mark.usefixtures("commands_end")


@pytest.mark.parametrize(("default", "outcome"), [("allow", "It said: plain"), ("deny", "It said: Denied")])
def test_without_a_terminal_a_question_is_answered_by_its_default(
    tmp_path: Path, write_module: WriteModule, tricky: str, default: str, outcome: str
) -> None:
    done = paddock("run", asking_plan(tmp_path, write_module, tricky, default=default), "go")
    assert done.stdout.startswith(outcome)
    assert rf"so the answer to module `hooks-asking` (hook) is {default}: Run \x1b[2Jthis?" in done.stderr
    if default == "allow":  # what the hook says of the result is shown with level and source
        (line,) = [line for line in done.stderr.splitlines() if "owned" in line]
        assert line.startswith("warning: ") and r"done \x1b]0;owned\x07" in line


@pytest.mark.parametrize(("key", "outcome"), [("1", "It said: plain"), ("deny", "It said: Denied")])
def test_a_person_is_asked_and_answers_by_number_or_name(
    tmp_path: Path, write_module: WriteModule, tricky: str, key: str, outcome: str
) -> None:
    with Terminal("run", asking_plan(tmp_path, write_module, tricky), "go") as terminal:
        terminal.type("1\n")  # before there is a question: no answer to it
        terminal.until(r"Run \x1b[2Jthis?")
        terminal.until("without an answer within 60 s it is deny: ")
        terminal.type("7\n")
        terminal.until("type a number from 1 to 2")
        terminal.type(f"{key}\n")
        terminal.until(outcome)
        assert terminal.exit_code() == 0


def test_a_question_without_an_answer_in_time_gets_its_default(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    with Terminal("run", asking_plan(tmp_path, write_module, tricky, timeout=0.2), "go") as terminal:
        terminal.until("no answer; the default is deny")
        terminal.until("It said: Denied")
        assert terminal.exit_code() == 0


def test_the_second_interruption_ends_a_turn_at_once(tmp_path: Path, tricky: str) -> None:
    tools = [{"module": "tool-tricky", "source": tricky}]
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


def test_text_for_a_terminal_is_escaped_and_for_a_program_is_not(tmp_path: Path) -> None:
    plan, prompt = plan_of(tmp_path), "a\x1b[31mb"
    assert paddock("run", plan, prompt).stdout == f"You said: {prompt}\n"
    with Terminal("run", plan, prompt) as terminal:
        terminal.until(r"You said: a\x1b[31mb")
        assert terminal.exit_code() == 0
