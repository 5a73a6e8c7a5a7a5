"""`run --trace`: a file for a viewer, made before the turn, for the user alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.command_line import paddock
from integration.tricky_tool import calling, plan_of

pytestmark = pytest.mark.usefixtures("commands_end")


@pytest.mark.costly
def test_a_run_writes_its_calls_across_processes_into_a_new_file(tmp_path: Path, tricky: str) -> None:
    plan = plan_of(
        tmp_path, providers=calling("tricky", do="text"), tools=[{"module": "tool-tricky", "source": tricky}]
    )
    file = tmp_path / "turn.json"
    done = paddock("run", plan, "go", "--trust-plan", "--trace", str(file))
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    events = json.loads(file.read_text())["traceEvents"]
    slices = {one["name"]: one for one in events if one["ph"] == "X"}
    turn, tool = slices["turn"], slices["tricky.execute"]
    assert turn["ts"] < tool["ts"] and tool["ts"] + tool["dur"] < turn["ts"] + turn["dur"]
    assert tool["pid"] not in (turn["pid"], slices["loop-basic.execute"]["pid"])
    arrows = {one["id"]: one["pid"] for one in events if one["ph"] == "s"}
    into_tool = next(
        one for one in events if one["ph"] == "f" and one["pid"] == tool["pid"] and one["ts"] == tool["ts"]
    )
    assert arrows[into_tool["id"]] == slices["loop-basic.execute"]["pid"]
    again = paddock("run", plan, "go", "--trust-plan", "--trace", str(file))
    assert again.returncode == 1 and "it is there already" in again.stderr and "started" not in again.stderr
