"""`paddock batch` with real sessions: results, folders, and what an end of it costs."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import Terminal, paddock
from integration.conftest import WriteModule
from integration.tricky_tool import calling, json_output, plan_of

pytestmark = pytest.mark.usefixtures("commands_end")

_APPEND = """
    import asyncio, os
    from pathlib import Path
    from amplifier_core.models import ToolResult

    class Append:
        name = "append"
        description = "appends the task's id to a file"

        def __init__(self, shared):
            self.shared = Path(shared)

        async def execute(self, input):
            id = Path("id.txt").read_text()
            with (self.shared / "log").open("a") as file:
                file.write(id + "\\n")
            Path("answer.txt").write_text("of " + id)
            os.symlink("/etc/passwd", "link")
            while (self.shared / "hold").exists():
                await asyncio.sleep(0.05)
            return ToolResult(output=id)

    async def mount(coordinator, config):
        async def end(event, data):
            with open(config["shared"] + "/ends", "a") as file:
                file.write("end ")

        await coordinator.mount("tools", Append(config["shared"]))
        coordinator.hooks.register("session:end", end)
"""


class _Ground:
    """A plan, and tasks whose tool appends the task's id to `log`, then waits while `hold` is there."""

    def __init__(self, folder: Path, write_module: WriteModule) -> None:
        self.shared, self.out = folder / "shared", folder / "out"
        self.shared.mkdir()
        self.hold = self.shared / "hold"
        tool = {
            "module": "tool-append",
            "source": write_module("tool-append", _APPEND),
            "config": {"shared": str(self.shared)},
            "permissions": {"read": ["."], "write": [".", str(self.shared)], "hooks": ["session:end"]},
        }
        self.plan = plan_of(folder, providers=calling("append", answer="{prompt} {last_tool_result}"), tools=[tool])
        self.tasks = folder / "tasks.jsonl"
        with self.tasks.open("w") as file:
            for number in range(4):
                (folder / f"id{number}").write_text(f"t{number}")
                task = {"id": f"t{number}", "prompt": "I am {{n}}:", "files": {"id.txt": f"id{number}"}}
                file.write(json.dumps({**task, "vars": {"n": str(number)}}) + "\n")

    def args(self, *more: str) -> list[str]:
        return ["batch", self.plan, str(self.tasks), "--out", str(self.out), *more]

    def results(self) -> dict[str, Any]:
        lines = [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]
        assert len({line["id"] for line in lines}) == len(lines)
        return {line["id"]: line for line in lines}

    def log(self) -> Counter[str]:
        return Counter((self.shared / "log").read_text().split())

    def until_acted(self, times: int) -> None:
        deadline = time.monotonic() + 100
        while not (self.shared / "log").exists() or self.log().total() < times:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def ground(tmp_path: Path, write_module: WriteModule) -> _Ground:
    return _Ground(tmp_path, write_module)


def test_each_task_has_a_session_and_a_folder_of_its_own(ground: _Ground) -> None:
    done = paddock(*ground.args("--trust-plan", "--json"))
    facts = json_output(done)
    assert (done.returncode, facts["error"]) == (0, None), done.stderr
    assert (facts["tasks"], facts["done"], facts["failed"], facts["lost"]) == (4, 4, 0, 0)
    results = ground.results()
    for number in range(4):
        result, folder = results[f"t{number}"], ground.out / f"t{number}"
        assert result["response"] == f"I am {number}: t{number}"
        assert result["acted"] == [{"attempt": 1, "module": "tool-append", "tool": "append"}]
        assert result["notes"] == ["`link` was not taken: it is no ordinary file"]
        assert (folder / "answer.txt").read_text() == f"of t{number}"
        assert len([*(folder / ".paddock").glob("*.journal")]) == 1
        assert {one.name for one in folder.iterdir()} == {"answer.txt", ".paddock"}
    assert ground.log() == Counter(results.keys())
    assert (ground.shared / "ends").read_text() == "end " * 4  # the trial has no record, and so it did nothing


def test_a_run_goes_on_after_each_kind_of_end(ground: _Ground) -> None:
    """Two interruptions end at once, one lets what runs end, and a killed driver loses no more than was in flight."""
    ground.hold.touch()
    with Terminal(*ground.args("--concurrency", "1")) as terminal:
        terminal.until("stop, and Enter:")
        terminal.type("yes\n")  # once for all runs
        ground.until_acted(1)
        terminal.type("\x03")
        terminal.until("stopping once what is running now is done")
        terminal.type("\x03")
        terminal.until("to go on: `paddock batch ")
        assert terminal.exit_code() == 130
    with Terminal(*ground.args("--concurrency", "1", "--resume", "--repeat", "always")) as terminal:
        ground.until_acted(2)
        terminal.type("\x03")
        terminal.until("stopping once what is running now is done")
        ground.hold.unlink()
        assert terminal.exit_code() == 130
    ((id, first),) = ground.results().items()
    assert (id, first["status"], [act["attempt"] for act in first["acted"]]) == ("t0", "done", [1, 2])
    ground.hold.touch()
    with Terminal(*ground.args("--concurrency", "2", "--resume")) as terminal:
        ground.until_acted(3)
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.exit_code()
    ground.hold.unlink()
    done = paddock(*ground.args("--resume", "--json"))
    results = ground.results()
    lost = {id for id, result in results.items() if result["status"] == "lost"}
    assert done.returncode == 1 and json_output(done)["lost"] == len(lost)
    assert len(results) == 4 and 1 <= len(lost) <= 2
    assert max((ground.log() - Counter(["t0"])).values()) == 1 and {*results} - {*ground.log()} <= lost
    assert all("`append` of tool-append in attempt 1" in results[id]["error"]["message"] for id in lost)
    assert not any(results[id]["repeatable"] for id in lost)


@pytest.mark.parametrize(
    ("changed", "options", "code", "said"),
    [
        ({}, [], 4, "which needs a plan that you accepted"),
        ({"write": ["../x"]}, ["--trust-plan"], 1, "leads out of the task's folder"),
        ({"write": ["{out}/t0"]}, ["--trust-plan"], 1, "has to do with the folder of the results"),
        ({"write": ["{out}/.."]}, ["--trust-plan"], 1, "has to do with the folder of the results"),
        ({"write": ["{out}/../tasks.jsonl"]}, ["--trust-plan"], 1, "has to do with the file of tasks"),
        ({"write": [tempfile.gettempdir()]}, ["--trust-plan"], 1, "has to do with the folders of tasks"),
        ({}, ["--shard", "3/2"], 2, "is no K/N with K from 1 to N"),
    ],
)
def test_what_cannot_be_started_is_refused_before_any_task(
    ground: _Ground, changed: dict[str, Any], options: list[str], code: int, said: str
) -> None:
    plan = json.loads(Path(ground.plan).read_text())
    plan["tools"][0]["permissions"].update(changed)
    Path(ground.plan).write_text(json.dumps(plan).replace("{out}", str(ground.out)))
    done = paddock(*ground.args(), *options, "--json")
    assert (done.returncode, json_output(done)["error"] is not None) == (code, True)
    assert said in done.stderr and not (ground.shared / "log").exists()
    assert not [*ground.out.glob("t*")]


def test_a_plan_whose_sources_are_not_pinned_names_the_command_that_does(ground: _Ground) -> None:
    module = next(ground.tasks.parent.glob("amplifier-module-*/pyproject.toml"))
    module.write_text(module.read_text().replace("[project]", '[project]\ndependencies = ["colorama"]', 1))
    done = paddock(*ground.args("--trust-plan"))
    assert done.returncode == 1 and f"`paddock lock {ground.plan}`" in done.stderr
