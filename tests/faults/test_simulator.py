"""Faults are done to a session from seeds whose hosts end while calls run; and its judge sees what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faults.conversation import problems_of
from faults.simulator import HOST_PATH
from paddock.session.journals.resume import NOT_STARTED

_SECONDS = 300  # hit only by a hang
_STEPS = os.environ.get("PADDOCK_FAULT_STEPS", "6")


@pytest.mark.parametrize("seed", [6, 48, 52])
def test_nothing_is_lost_or_twice_or_said_that_is_not_so(seed: int) -> None:
    command = [sys.executable, str(Path(__file__).with_name("simulator.py")), str(seed), _STEPS]
    environ = {**os.environ, "PYTHONPATH": HOST_PATH}
    done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", timeout=_SECONDS)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


_PROMPT = {"role": "user", "content": "go"}
_ASKED = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "arguments": {"what": "a"}}]}


def _said(content: str, id: str = "1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


@pytest.mark.parametrize(
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
