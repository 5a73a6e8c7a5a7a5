"""`paddock module new`, `validate` and `test`, as people and scripts run them: what is written, and exit codes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.authoring.installed_wheels import TEST_RUNNERS, index_of
from integration import command_line
from integration.command_line import diagnosis, reachable_level
from paddock.authoring.module_name import ModuleName
from paddock.authoring.project import write_project
from sources.index_server import IndexServer

pytestmark = pytest.mark.usefixtures("commands_end")

_ESCAPES = "\x1b]0;title\x07\u202e"


@pytest.fixture(autouse=True)
def _shared_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "module-cache"))


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index with what runs tests, and no more."""
    with index_of(monkeypatch, *TEST_RUNNERS) as index:
        yield index


def _module(command: str, *args: str) -> subprocess.CompletedProcess[str]:
    level = [] if command == "new" or diagnosis()["ok"] else ["--isolation", reachable_level()]
    return command_line.paddock("module", command, *level, *args)


def _broken(folder: Path, code: str, test: str = "") -> Path:
    root = folder / "amplifier-module-tool-broken"
    package = root / "amplifier_module_tool_broken"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    if test:
        (root / "test_broken.py").write_text(test)
    return root


def test_a_new_module_is_written_and_what_to_do_next_is_said(tmp_path: Path) -> None:
    done = _module("new", "tool", "word-count", "--path", str(tmp_path))
    files = [Path(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and all(file.is_file() for file in files)
    assert tmp_path / "amplifier-module-tool-word-count/pyproject.toml" in files
    assert "hint: `paddock module validate" in done.stderr and "hint: `paddock module test" in done.stderr
    again = _module("new", "tool", "word-count", "--path", str(tmp_path), "--json")
    assert again.returncode == 1 and json.loads(again.stdout)["error"]["type"] == "ProjectError"


@pytest.mark.exhaustive
def test_a_project_gets_a_further_module_and_tests_each_for_itself(tmp_path: Path, index: IndexServer) -> None:
    root = write_project(ModuleName.of("tool", "good"), tmp_path).folder
    done = _module("new", "hook", "more", "--path", str(root))
    assert done.returncode == 0 and str(root / "amplifier_module_hooks_more/__init__.py") in done.stdout.splitlines()
    tested = _module("test", str(root))
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "test_tool.py" in tested.stdout and "test_hooks_more.py" in tested.stdout
    again = _module("new", "hook", "more", "--path", str(root))
    assert again.returncode == 1 and "it holds a module `hooks-more` already" in again.stderr


_BROKEN = "raise ValueError('no code')\n"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A project of three modules, of which one fails when it is imported and one lacks its package."""
    root = write_project(ModuleName.of("tool", "good"), tmp_path).folder
    package = root / "amplifier_module_tool_bad"
    package.mkdir()
    (package / "__init__.py").write_text(_BROKEN)
    pyproject = root / "pyproject.toml"
    declared = 'tool-good = "amplifier_module_tool_good:mount"\n'
    more = 'tool-bad = "amplifier_module_tool_bad:mount"\nhooks-gone = "amplifier_module_hooks_gone:mount"\n'
    assert declared in pyproject.read_text()
    pyproject.write_text(pyproject.read_text().replace(declared, declared + more))
    return root


@pytest.mark.exhaustive
def test_each_module_of_a_folder_is_validated_and_broken_ones_are_named(three: Path) -> None:
    people = _module("validate", str(three))
    assert people.returncode == 1
    assert people.stdout.count("PASSED: 8/8") == people.stdout.count("FAILED: 0/1") == 1
    assert "Validation: tool tool-bad" in people.stdout and "no code" in people.stdout
    assert "`amplifier_module_hooks_gone:mount`, and that package is missing" in people.stderr
    scripts = _module("validate", str(three), "--json")
    told = json.loads(scripts.stdout)
    assert (scripts.returncode, told["passed"], told["module_path"]) == (1, False, str(three))
    assert [(one["module"], one["passed"]) for one in told["modules"]] == [
        ("tool-good", True),
        ("tool-bad", False),
        ("hooks-gone", False),
    ]
    assert told["modules"][2]["error"]["type"] == "ModulePathError"


@pytest.mark.exhaustive
def test_a_package_of_such_a_folder_is_validated_alone(three: Path) -> None:
    done = _module("validate", str(three / "amplifier_module_tool_good"), "--json", "--type", "tool")
    assert done.returncode == 0 and json.loads(done.stdout)["module_type"] == "tool"
    refused = _module("validate", str(three), "--type", "tool")
    assert refused.returncode == 1 and "hint: name the package of one" in refused.stderr
    assert "`--type` is of one module, and here are tool-good, tool-bad, hooks-gone" in refused.stderr


@pytest.mark.parametrize(
    ("args", "told"), [([], "FAILED: 0/1 checks passed"), (["-v"], "FAIL "), (["--json"], '"passed": false')]
)
def test_a_module_that_fails_is_told_so_and_cannot_write_on_the_terminal(
    args: list[str], told: str, tmp_path: Path
) -> None:
    root = _broken(tmp_path, f"print({_ESCAPES!r}, flush=True)\nraise ValueError({_ESCAPES!r})\n")
    done = _module("validate", str(root), *args)
    assert done.returncode == 1 and told in done.stdout
    assert done.stderr.count("| \\x1b]0;title\\x07\\u202e") == 1  # what it printed often says why
    assert not set("\x1b\x07\u202e") & set(done.stdout + done.stderr)


def test_a_module_that_hangs_is_ended_and_reported(tmp_path: Path) -> None:
    root = _broken(tmp_path, "while True: pass\n")
    done = _module("validate", str(root), "--limit", "runtime_max=1s", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["passed"], told["checks"]) == (5, False, [])
    assert told["error"]["report"]["reason"] == "timeout"
    assert "was ended for not answering in time (runtime_max 1 s)" in done.stderr


def test_ctrl_c_ends_a_trial_and_all_of_it(tmp_path: Path) -> None:
    root = _broken(tmp_path, "print('it runs', flush=True)\nwhile True: pass\n")
    level = [] if diagnosis()["ok"] else ["--isolation", reachable_level()]
    with command_line.Terminal("module", "validate", "-v", *level, str(root)) as terminal:
        terminal.until("it runs")
        terminal.type("\x03")
        assert terminal.exit_code() == 130


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["amplifier-module-tool-bord"], 1, "did you mean `amplifier-module-tool-bird`?"),
        (["amplifier-module-tool-bird/a.py"], 1, "or its package: `amplifier-module-tool-bird`"),
        (["."], 1, "no package in it"),
        (["."], 1, "did you mean `amplifier-module-tool-bird`?"),
    ],
)
def test_where_nothing_can_be_validated_that_is_said(
    args: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "empty"
    (folder / "amplifier-module-tool-bird").mkdir(parents=True)
    (folder / "amplifier-module-tool-bird/a.py").touch()
    monkeypatch.chdir(folder)
    done = _module("validate", *args)
    assert (done.returncode, done.stdout) == (code, "") and said in done.stderr, done.stderr


def test_a_module_of_unknown_kind_is_validated_once_it_is_named(tmp_path: Path) -> None:
    package = tmp_path / "amplifier_module_greeter"
    package.mkdir()
    (package / "__init__.py").write_text("async def mount(coordinator, config=None):\n    pass\n")
    unknown = _module("validate", str(package))
    assert unknown.returncode == 1 and "hint: say it: `--type` takes" in unknown.stderr
    named = _module("validate", str(package), "-t", "hook")
    assert named.returncode == 0 and named.stdout.startswith("Validation: hook\n"), named.stdout


_WANTS_A_KEY = """
import os

class Tool:
    name, description, input_schema = "acme", "Asks Acme.", {}

    async def execute(self, input):
        pass

async def mount(coordinator, config):
    if os.environ.get("ACME_KEY"):
        await coordinator.mount("tools", Tool(), name=config["as"])
"""


def test_what_a_module_wants_at_its_mount_is_given_by_the_printed_command(tmp_path: Path) -> None:
    words = ["validate", str(_broken(tmp_path, _WANTS_A_KEY))]
    for added in ("--allow-env ACME_KEY=test", """--config '{"as": "test"}'"""):
        done = _module(*words)
        (command,) = re.findall("`(paddock module .*)`", done.stderr)
        assert done.returncode == 1 and command.endswith(added), done.stderr
        words = shlex.split(command)[2:]
    passed = _module(*words, "--json")
    assert passed.returncode == 0, passed.stdout
    assert "it is mounted as `test`, and its own name is `acme`" in json.loads(passed.stdout)["checks"][3]["message"]


@pytest.mark.usefixtures("index")
def test_how_a_module_behaves_is_one_more_check(tmp_path: Path) -> None:
    root = write_project(ModuleName.of("context", "word-count"), tmp_path).folder
    done = _module("validate", str(root), "--behavioral", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["checks"][-1]["name"] == "behavior_tests"


@pytest.mark.exhaustive
@pytest.mark.usefixtures("index")
def test_a_module_that_behaves_as_none_of_its_kind_is_told_where(tmp_path: Path) -> None:
    code = """
class Tool:
    name, description, input_schema = "x", "a tool", {}

    async def execute(self, input):
        return "no result"

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool(), name="x")
"""
    done = _module("validate", str(_broken(tmp_path, code)), "-b", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1 and [one["name"] for one in told["checks"] if not one["passed"]] == ["behavior_tests"]
    assert "execute() has to return a ToolResult, not str" in done.stderr


@pytest.mark.exhaustive
@pytest.mark.usefixtures("index")
def test_pytests_output_is_passed_on_escaped(tmp_path: Path) -> None:
    test = f"def test_it():\n    print({_ESCAPES!r})\n    assert False\n\ndef test_other():\n    pass\n"
    root = _broken(tmp_path, "", test)
    failed = _module("test", str(root))
    assert failed.returncode == 1 and "1 failed, 1 passed" in failed.stdout
    assert r"\x1b]0;title\x07" in failed.stdout and not set("\x1b\x07\u202e") & set(failed.stdout + failed.stderr)
    assert sorted(path.name for path in root.iterdir()) == ["amplifier_module_tool_broken", "test_broken.py"]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("index")
def test_tests_can_be_chosen_and_none_is_no_success(tmp_path: Path) -> None:
    root = _broken(tmp_path, "", "def test_it():\n    assert False\n\ndef test_other():\n    pass\n")
    chosen = _module("test", str(root), "--", "-k", "other")
    assert chosen.returncode == 0 and "1 passed, 1 deselected" in chosen.stdout
    none = _module("test", str(root), "--", "-k", "nothing")
    assert none.returncode == 1 and "error: there are no tests to run" in none.stderr


def test_a_machine_without_a_network_is_told_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "empty-cache"))
    done = _module("test", str(_broken(tmp_path, "")), "--offline")
    assert (done.returncode, done.stdout) == (1, "")
    assert "what runs the tests is unavailable" in done.stderr and "pytest, pytest-asyncio" in done.stderr
