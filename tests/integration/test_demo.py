"""The demonstration: the right answer beside six modules that misbehave, and nothing left of any of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from integration.command_line import paddock
from paddock.cli.demo_command import demo
from paddock.demo import Demonstration, DemoOutcome, demonstration

pytestmark = pytest.mark.usefixtures("commands_end")


def test_the_job_is_done_and_every_misbehaviour_contained() -> None:
    done = paddock("demo", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["problems"]) == (0, True, [])
    assert told["expected_total"] == "1009.69"
    assert "1009.69" in told["answer"]
    assert "| **total** | **1009.69** |" in told["file"]["content"]
    modules = {module["module"]: module for module in told["modules"]}
    assert {module["kind"] for module in modules.values()} == {"orchestrator", "context", "provider", "tool", "hook"}
    (level,) = {module["level"] for module in modules.values()}
    assert level in ("ns", "bwrap", "landlock")
    assert bool(told["weaker"]) == (level == "landlock")

    (crash,) = modules["tool-crasher"]["exit_reports"]
    assert crash["signal"] == "SIGSEGV"
    assert "killed by SIGSEGV" in modules["tool-crasher"]["contained"]

    (overstay,) = modules["hooks-sleeper"]["exit_reports"]
    assert (overstay["reason"], overstay["limit"]["name"]) == ("timeout", "runtime_max")
    assert modules["hooks-sleeper"]["restarts"] == 1

    (overeaten,) = modules["tool-glutton"]["exit_reports"]
    assert (overeaten["reason"], overeaten["limit"]["name"]) == ("memory", "memory_max")
    assert modules["tool-snoop"]["contained"].startswith("refused by the system: ")
    assert modules["tool-forker"]["exit_reports"] or "refused" in modules["tool-forker"]["contained"]

    assert modules["tool-chatterbox"]["printed_bytes"] == 8 * 1024 * 1024
    assert modules["tool-chatterbox"]["kept_bytes"] == 64 * 1024
    assert modules["tool-chatterbox"]["exit_reports"] == []


@pytest.mark.exhaustive  # of another run, the table is shown below
@pytest.mark.parametrize("columns", [60, 100])
def test_people_get_one_table_that_fits_the_width_and_the_answer(columns: int) -> None:
    done = paddock("demo", environ={"COLUMNS": str(columns)})
    assert done.returncode == 0
    _check_table(done.stdout, columns)
    assert "1009.69" in done.stdout.partition("answer: ")[2] and "the total is right" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def _check_table(shown: str, columns: int) -> None:
    table, _, answer = shown.partition("answer: ")
    assert all(len(line) <= columns for line in table.splitlines())
    words = " ".join(table.split())
    for said in ("SIGSEGV", "MiB", "KiB", "runtime_max", "memory_max"):
        assert said in words
    assert "isolation: " in answer


@pytest.mark.exhaustive
def test_a_wrong_sum_is_noticed_and_shown_to_people_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: list[DemoOutcome] = []
    run = Demonstration.run

    async def run_once(demonstration: Demonstration) -> DemoOutcome:
        if not outcomes:
            outcomes.append(await run(demonstration))
        return outcomes[0]

    monkeypatch.setattr(Demonstration, "run", run_once)
    own = tmp_path / "demo"
    shutil.copytree(demonstration.PLAN.parent, own)
    plan = own / "plan.yaml"
    plan.write_text(
        plan.read_text(encoding="utf-8").replace("files: [january.csv, february.csv, march.csv]", "files: [march.csv]"),
        encoding="utf-8",
    )
    monkeypatch.setattr(demonstration, "PLAN", plan)
    assert demo.main(["--json"], standalone_mode=False) == 3
    told = json.loads(capsys.readouterr().out)
    assert not told["ok"]
    assert [problem for problem in told["problems"] if "1009.69" in problem] == told["problems"]
    for columns in (60, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert demo.main([], standalone_mode=False) == 3
        shown, said = capsys.readouterr()
        _check_table(shown, columns)
        assert "something is not as it should be" in " ".join(shown.split()) and "error: " in said
        assert "\x1b" not in shown + said
