"""`paddock init` as people and scripts run it: the plan it writes reaches an answer, unedited."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from integration.command_line import Terminal, paddock, redirected
from integration.conftest import WriteModule
from sources.git.origin_repository import OriginRepository

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_SHOUT = """
    from amplifier_core import ToolResult

    class Shout:
        name = "shout"
        description = "Says it louder."
        input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}

        async def execute(self, input):
            return ToolResult(output=input["text"].upper() + "!")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Shout())
"""


def test_the_plan_it_writes_reaches_an_answer(tmp_path: Path) -> None:
    written = paddock("init", "--log")
    assert (written.returncode, written.stderr) == (0, "")
    done = paddock("run", "plan.yaml", "what is it?")
    assert done.returncode == 0, done.stderr
    assert "It called the tool `list_directory`" in done.stdout and '"path": "plan.yaml"' in done.stdout
    assert "no model answers: provider-mock plays a script" in done.stderr
    assert (tmp_path / "logs/session.jsonl").exists()


def test_what_was_written_is_said_where_stdout_takes_no_report(tmp_path: Path) -> None:
    written = {"q.yaml": ["init", "q.yaml", "--yes"], "amplifier-module-tool-x": ["module", "new", "tool", "x"]}
    for name, args in written.items():
        with open("/dev/full", "w") as stdout, open("said", "w+") as stderr:
            assert redirected(*args, stdout=stdout.fileno(), stderr=stderr.fileno()) == 1
        assert Path(name).exists()
        done, error = Path("said").read_text().splitlines()[-2:]
        assert done.endswith(f"{name} is written; only the report of it could not be written")
        assert error.startswith("error: the output cannot be written to stdout: ")


@pytest.mark.exhaustive
def test_a_person_is_asked_for_what_no_option_says(tmp_path: Path, write_module: WriteModule) -> None:
    write_module("tool-shout", _SHOUT)
    (tmp_path / "AGENTS.md").write_text("Shout.")
    with Terminal("init") as terminal:
        terminal.until("Which provider answers?")
        terminal.until(") provider-mock")
        terminal.until("]")
        terminal.type("provider-gemini\n")
        terminal.until("no module `provider-gemini` is shipped")
        terminal.until("]")
        terminal.type("provider-mock\n")
        terminal.until("Which tools may it use?")
        terminal.until(") ./amplifier-module-tool-shout")
        terminal.until("]")
        terminal.type("tool-filesystem, ./amplifier-module-tool-shout\n")
        terminal.until("before a tool writes a file or runs a program? [Y/n]")
        terminal.type("\n")
        terminal.until("Keep a log")
        terminal.type("y\n")
        terminal.until("Have the model follow ./AGENTS.md too? [Y/n]")
        terminal.type("\n")
        terminal.until("granted: workspace")
        terminal.until("Write it?")
        assert not (tmp_path / "plan.yaml").exists()
        terminal.type("\n")
        terminal.until("paddock run plan.yaml")
        assert terminal.exit_code() == 0
    told = json.loads(paddock("run", "plan.yaml", "hello", "--json").stdout)
    names = [module["module"] for module in told["modules"]]
    assert "list_directory" in told["response"]
    assert names[-5:] == ["tool-filesystem", "tool-shout", "hooks-approval", "hooks-logging", "hooks-status-context"]
    assert "    Follow @AGENTS.md too, " in (tmp_path / "plan.yaml").read_text()


def test_code_from_a_repository_is_fetched_pinned_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "cache"))
    origin = OriginRepository(tmp_path / "amplifier-module-tool-shout")
    asks = '[tool.paddock.permissions]\nread = ["."]\n'
    origin.commit(
        {
            "pyproject.toml": f'[project]\nname = "amplifier-module-tool-shout"\nversion = "1.0"\n{asks}',
            "amplifier_module_tool_shout/__init__.py": textwrap.dedent(_SHOUT),
        }
    )
    with Terminal("init", "--provider", "provider-mock", "--no-log", "--no-approval") as terminal:
        terminal.until("git+https://")
        terminal.until("]")
        terminal.type(f"{origin.address}@nowhere\n")
        terminal.until("error: ")
        terminal.until("]")
        terminal.type(f"tool-filesystem, {origin.address}\n")
        terminal.until("granted: read .")
        terminal.until("Write it?")
        assert not (tmp_path / "plan.yaml").exists() and not (tmp_path / "paddock.lock").exists()
        terminal.type("\n")
        assert terminal.exit_code() == 0, terminal.shown
    assert paddock("lock", "--check", "--offline").returncode == 0
    done = paddock("run", "plan.yaml", "hello", "--json")
    told = json.loads(done.stdout)
    assert "list_directory" in told["response"], done.stderr
    assert "tool-shout" in [module["module"] for module in told["modules"]]


def test_a_person_who_says_no_or_leaves_has_nothing_written(tmp_path: Path) -> None:
    with Terminal("init", "--provider", "provider-mock", "--tool", "none", "--no-log") as terminal:
        terminal.until("Write it?")
        terminal.type("n\n")
        terminal.until("nothing was written")
        assert terminal.exit_code() == 1
    with Terminal("init") as terminal:
        terminal.until("Which provider answers?")
        terminal.until("]")
        terminal.type("\x03")
        assert terminal.exit_code() == 130
    with Terminal("init") as terminal:
        terminal.until("]")
        terminal.type("\x04")
        assert terminal.exit_code() == 130
    assert not (tmp_path / "plan.yaml").exists()
