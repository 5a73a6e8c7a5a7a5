"""Faults are done to a session from seeds whose hosts end while calls run; and its judge sees what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faults import simulator
from faults.acts import Script
from faults.conversation import problems_of
from paddock.session.journals.resume import NOT_STARTED
from support.examples import repeating
from support.rows import each_row

_SECONDS = 300  # hit only by a hang
_SEEDS = range(1, 5)
_USUAL = 1  # with the next one; each kind of act but two, which have tests of their own
_STEPS = 10
_AT_ONCE = 2  # seeds of one process


@pytest.mark.slow
@pytest.mark.parametrize("seed", [_USUAL, *repeating(*range(_USUAL + _AT_ONCE, 13, _AT_ONCE))])
def test_what_must_hold_after_any_fault_holds(seed: int) -> None:
    command = [sys.executable, str(Path(__file__).with_name("simulator.py")), *map(str, (seed, _STEPS, _AT_ONCE))]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", timeout=_SECONDS)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_these_seeds_do_every_act() -> None:
    done = {(act.name, act.target) for seed in _SEEDS for act in Script.of(seed, _STEPS).acts}
    assert done == {(act.name, act.target) for act in Script.of(0, 100).acts}


def test_a_shorter_session_begins_as_a_longer_one_does() -> None:
    assert Script.of(7, 60).acts[:6] == Script.of(7, 6).acts


def test_a_problem_is_told_with_the_shortest_beginning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken_at_third(script: Script, ground: Path) -> str:
        (ground / "work").mkdir()
        (ground / "work/next").write_text("3")
        return "broken"

    monkeypatch.setattr(simulator, "simulate", broken_at_third)
    assert simulator.main(["7", "60", "--hours", "1"]) == 1
    begun, told, problem, again = capsys.readouterr().out.splitlines()
    assert (begun, told) == (Script.of(7, 60).told(60), Script.of(7, 60).told(3))
    assert (problem, again) == ("  broken", "again: `make soak SEED=7 STEPS=3 HOURS=0`")


_PROMPT = {"role": "user", "content": "go"}
_ASKED = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "arguments": {"what": "a"}}]}


def _said(content: str, id: str = "1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


@each_row(
    ("before", "now", "marks", "problem"),
    [
        ([], [_PROMPT, _ASKED, _said("marked a")], ["a"], ""),
        ([_PROMPT, _ASKED], [_PROMPT, _said("x")], [], "what was there before has changed"),
        ([], [_PROMPT, _PROMPT], [], "a prompt is there twice"),
        ([], [], ["a", "a"], "a tool ran twice"),
        ([], [_ASKED], [], "1 calls have no answer"),
        ([], [_ASKED, _PROMPT], [], "comes before the answers"),
        ([], [_ASKED, _said("x"), _said("x")], [], "answers no open call"),
        ([], [_ASKED, _said("marked a")], [], "a run that was none"),
        ([], [_ASKED, _said(NOT_STARTED)], ["a"], "did not run, which ran"),
    ],
)
def test_the_judge_sees_what_is_wrong(before: list[Any], now: list[Any], marks: list[str], problem: str) -> None:
    found = list(problems_of(before, now, marks))
    assert found == [] if not problem else any(problem in one for one in found)
