"""The agent that `make agent` shows: it mends the program, and what misbehaves beside it is contained and named."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import coding_agent.__main__ as shown
from coding_agent.demonstration import (
    KEY,
    PROGRAM,
    PROMPT,
    CodingAgent,
    Outcome,
    Verdict,
    find_python,
    make_repository,
    model_server,
    write_plan,
)
from coding_agent.mending_model import MendingModel
from host.authoring.installed_wheels import index_of
from integration.command_line import Terminal, largest_worker, nothing_outlives_its_command, require_level
from modules import shipped
from vendors.script import Fault
from vendors.server import VendorServer

_TESTS = "python3 -m unittest -q"


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An index with what the provider depends on, as it is installed here."""
    with index_of(monkeypatch, *shipped.installed_for(shipped.project("provider-openai")["dependencies"])):
        yield


@pytest.mark.exhaustive  # as the demonstration has it, with a vendor's library
@pytest.mark.usefixtures("packages")
def test_the_test_is_mended_and_the_stranger_contained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["coding_agent", str(tmp_path / "kept")])
    monkeypatch.setenv("COLUMNS", "200")
    with nothing_outlives_its_command(tmp_path / "scratch", monkeypatch):
        assert shown.main() == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "model: First I run the tests, as AGENTS.md says." in out
    assert "bash: FAILED (failures=1)" in out and "bash: FAILED (failures=3)" in out and "bash: OK" in out
    assert "│ -    if quantity > 10:\n│ +    if quantity >= 10:\n" in out
    assert "tests before: FAILED (failures=1)\ntests after:  OK\n" in out
    stranger = next(line for line in out.splitlines() if line.startswith(" tool-line-count"))
    table = " ".join(out.partition(stranger)[2].split())
    assert "refused: write to" in stranger + table and "killed by SIGSEGV" in stranger + table
    assert (tmp_path / "kept" / "paddock.lock").exists()
    report = (tmp_path / "kept" / "report.html").read_text()
    assert out.splitlines()[-1].endswith("report.html") and "killed by SIGSEGV" in report and "write to" in report


@pytest.mark.exhaustive  # the end of a provider and of its answer have tests of their own
@pytest.mark.usefixtures("packages")
def test_a_task_outlives_a_cut_network_and_a_killed_provider(tmp_path: Path) -> None:
    level, python = require_level("ns"), find_python()
    # The third request is cut in the middle of its answer; while the sixth is answered, its provider is killed.
    faults = {2: Fault("cut", after=3), 5: Fault("stall", after=3)}
    with model_server(f"{python} -m unittest -q", "sk-long-enough", faults) as server:
        repository = make_repository(tmp_path)
        plan = write_plan(tmp_path / "plan", server, python, {"key": "/nowhere", "port": 9, "host": os.getpid()})
        options = ("-C", str(repository), "--isolation", level, "--trust-plan")
        before = set(psutil.Process().children(recursive=True))
        with Terminal("run", str(plan), PROMPT, *options, environ={KEY: "sk-long-enough"}, seconds=110) as terminal:
            terminal.until("7 modules started, isolation: ns")
            _allow(terminal, 3)
            server.wait_until(lambda: len(server.answers) == 6)
            largest_worker(set(psutil.Process().children(recursive=True)) - before).kill()
            server.wait_until(lambda: server.answers[5].is_abandoned)
            _allow(terminal, 2)
            assert terminal.exit_code() == 0, terminal.shown
    assert "module provider-openai was killed by SIGKILL" in terminal.shown
    assert "module tool-line-count was killed by SIGSEGV" in terminal.shown
    assert "The tests pass." in terminal.shown and "if quantity >= 10:" in terminal.shown
    assert "if quantity >= 10:" in (repository / PROGRAM).read_text()
    # The server refuses a conversation with a tool call that has no answer, as the vendor does.
    assert server.refusals == []
    assert [asked.fault for asked in server.answers] == ["", "", "cut", "", "", "stall", "", "", "", ""]
    calls = [call["id"] for message in _last(server) for call in message.get("tool_calls") or ()]
    assert calls == [message["tool_call_id"] for message in _last(server) if message["role"] == "tool"]
    assert len(set(calls)) == len(calls) == 9


def _allow(terminal: Terminal, times: int) -> None:
    for _ in range(times):
        terminal.until("it is deny: ")
        terminal.type("1\n")


def _last(server: VendorServer) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.answers[-1].body["messages"]
    return messages


def outcome(**changes: Any) -> Outcome:
    passed = Verdict(True, "OK")
    given = {"answer": "", "before": Verdict(False, "FAILED"), "after": passed, "diff": "", "parts": ()}
    return Outcome(**{**given, "questions": 0, "seconds": 1.0, "problems": (), **changes})


@pytest.mark.parametrize(("problems", "code"), [((), 0), (("the tests do not pass",), 1)])
def test_it_fails_when_the_program_is_not_mended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problems: tuple[str, ...],
    code: int,
) -> None:
    async def run(agent: CodingAgent) -> Outcome:
        return outcome(problems=problems)

    monkeypatch.setattr(CodingAgent, "run", run)
    monkeypatch.setattr(sys, "argv", ["coding_agent", str(tmp_path)])
    assert shown.main() == code
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")] == [
        f"error: {problem}" for problem in problems
    ]


# -- the model -----------------------------------------------------------------------------


class Tools:
    """Answers a model's calls as the tools do, with a program in memory; `passes` says when its tests pass."""

    def __init__(self, program: str, passing: str) -> None:
        self.program = program
        self._passing = passing

    def answer(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name == "edit_file":
            assert self.program.count(arguments["old_string"]) == 1
            self.program = self.program.replace(arguments["old_string"], arguments["new_string"])
            return '{"replacements": 1}'
        if name == "bash" and arguments["command"] == _TESTS:
            good = self._passing in self.program
            failed = 'File "/x/test_shop.py", line 3\nFAILED (failures=1)'
            return json.dumps({"stdout": "", "stderr": "OK" if good else failed, "returncode": int(not good)})
        if name == "read_file":
            lines = enumerate(self.program.splitlines(), start=1)
            return json.dumps({"content": "\n".join(f"{number:6}\t{line}" for number, line in lines)})
        return "the tool died" if name == "count_lines" else '{"stdout": "", "stderr": "", "returncode": 0}'


def talk(tools: Tools) -> tuple[str, Sequence[str]]:
    """Return the model's last words, and the tools that it called, in order."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    model = MendingModel(lambda: {"messages": messages}, _TESTS)
    called: list[str] = []
    while len(called) < 100:
        turn = model.next_turn()
        assert turn == model.next_turn()  # the same request has the same answer
        if not turn.tool_calls:
            return "".join(turn.text), called
        calls = [
            {"id": f"{len(called)}.{index}", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
            for index, call in enumerate(turn.tool_calls)
        ]
        messages.append({"role": "assistant", "tool_calls": calls})
        for call in calls:
            function: Any = call["function"]
            called.append(function["name"])
            content = tools.answer(function["name"], json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    raise AssertionError(called)


def test_the_model_takes_back_what_does_not_help() -> None:
    tools = Tools('"""A > B."""\na = 1 > 2\nb = 3 - 4\n', "b = 3 + 4")
    said, called = talk(tools)
    assert said.startswith("The tests pass.")
    assert tools.program == '"""A > B."""\na = 1 > 2\nb = 3 + 4\n'
    assert called.count("edit_file") == 4  # two that do not help, one that takes the second back, one that does


def test_the_model_says_when_it_knows_of_nothing_else() -> None:
    said, called = talk(Tools("a = 1 > 2\n", "never"))
    assert said == "I know of nothing else to try." and called.count("edit_file") == 2
