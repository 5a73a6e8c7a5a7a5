"""A person who is stopped gets a line that works when it is pasted, or words that fit; each line is pasted here."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.command_line import Terminal, paddock, require_level
from integration.conftest import ANSWERING, WriteModule, write_plan
from integration.probe import tool_code
from sources.git_repositories import module_files, repository

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_TEXT_TOOL = tool_code(
    "tell",
    """
    if input.get("hang"):
        print("hanging", flush=True)
        await asyncio.sleep(3600)
    return "text"
    """,
)
_HOME_TOOL = tool_code(
    "count",
    """
    path = Path("~/.amplifier/count").expanduser()
    path.parent.mkdir(exist_ok=True)
    count = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(count))
    return ToolResult(output=f"call {count}")
    """,
)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Return the address of a repository at a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"git+http://127.0.0.1:{server.getsockname()[1]}/x@main"


def _scripted(module_id: str, source: str, tool: str) -> None:
    call = json.dumps({"tool_calls": [{"name": tool, "arguments": {}}]})
    Path("plan.yaml").write_text(f"""\
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock, config: {{responses: [{call}, "{{last_tool_result}}"]}}}}]
tools:
  - module: {module_id}
    source: {json.dumps(source)}
""")


def _commands(said: str) -> list[list[str]]:
    """Return the commands in backticks, as a shell would read them."""
    return [shlex.split(line)[1:] for line in re.findall(r"`(paddock [^`]+)`", said)]


# -- secrets -------------------------------------------------------------------------------


def test_an_unset_secret_is_named_with_the_line_that_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY_X", raising=False)
    write_plan("{module: tool-todo, permissions: {secrets: [KEY_X]}, config: {key: '${KEY_X}'}}")
    done = paddock("run", "plan.yaml", "hi", "--trust-plan")
    assert done.returncode == 1 and "set `KEY_X` first" in done.stderr, done.stderr
    (line,) = re.findall(r"`(read [^`]+)`", done.stderr)
    pasted = subprocess.run(["bash", "-c", f"{line}; printenv KEY_X"], input="a key\n", capture_output=True, text=True)
    assert pasted.stdout == "a key\n"
    (page,) = _commands(done.stderr)
    assert "[OPENAI_API_KEY]" in paddock(*page).stdout


def test_unset_names_of_a_call_are_refused_before_a_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY_X", raising=False)
    source = f"git+file://{tmp_path}/nowhere@v1"
    for option in ("--allow-secrets=KEY_X", "--allow-env=KEY_X"):
        done = paddock("call", source, "x", option)
        assert done.returncode == 1 and "`KEY_X` is not set" in done.stderr and "set `KEY_X` first" in done.stderr
        assert "nowhere" not in done.stderr


def test_a_narrow_terminal_does_not_break_a_command_in_a_hint() -> None:
    with Terminal("call", "tool-todo", "todo", "--allow-secrets=NO_KEY", environ={"COLUMNS": "50"}) as terminal:
        assert terminal.exit_code() == 1
        rows = terminal.shown.splitlines()
    assert "  `read -rs NO_KEY && export NO_KEY` takes it" in rows


def test_why_says_that_a_granted_secret_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY_X", raising=False)
    write_plan("{module: tool-todo, permissions: {secrets: [KEY_X]}, config: {key: '${KEY_X}'}}")
    why = ("why", "tool-todo", "secrets", "KEY_X", "--plan", "plan.yaml")
    done = paddock(*why)
    assert done.returncode == 0 and "`read -rs KEY_X && export KEY_X`" in " ".join(done.stdout.split())
    assert json.loads(paddock(*why, "--json").stdout)["is_set"] is False
    assert "not set" not in paddock(*why, environ={"KEY_X": "a key"}).stdout


# -- without a network ---------------------------------------------------------------------


@pytest.mark.exhaustive
def test_what_is_missing_offline_is_fetched_by_the_line_shown(tmp_path: Path) -> None:
    repository(tmp_path / "repo", module_files(answer="'hello'"))
    source = f"git+file://{tmp_path}/repo@v1"
    _scripted("tool-greet", source, "tool_greet")
    run = ("run", "plan.yaml", "say it", "--offline", "--trust-plan")
    done = paddock(*run)
    assert done.returncode == 1 and "nothing is fetched offline" in done.stderr
    assert _commands(done.stderr) == [["run", "plan.yaml", "say it", "--trust-plan"]]
    why = ("why", "tool-greet", "read", "x", "--plan", "plan.yaml")
    explained = paddock(*why)
    assert "offline" not in explained.stderr and _commands(explained.stderr) == [["lock", "plan.yaml"]]
    assert paddock(*_commands(explained.stderr)[0]).returncode == 0
    assert paddock(*why).returncode == 4
    assert paddock(*run).stdout == "hello\n"
    called = paddock("call", source.replace("v1", "main"), "tool_greet", '{"a": "b c"}', "--offline")
    assert paddock(*_commands(called.stderr)[0]).stdout == "hello\n"


def test_packages_that_are_missing_offline_are_named() -> None:
    plan = Path("plan.yaml")
    plan.write_text(ANSWERING.replace("provider-mock", "provider-openai"))
    done = paddock("run", "plan.yaml", "hi", "--offline", "--json")
    error = json.loads(done.stdout)["error"]
    assert "packages are missing for module `provider-openai`: openai" in error["message"], error
    assert error["hints"] == ["fetch it while there is a network: `paddock run plan.yaml hi --json`"]


# -- what a command takes ------------------------------------------------------------------


@pytest.mark.exhaustive
def test_misplaced_words_get_the_command_that_was_meant() -> None:
    write_plan()
    for words, meant in (
        (["chat", "plan.yaml", "Hi you"], ["run", "plan.yaml", "Hi you"]),
        (["chat", "Hi", "you"], ["run", "plan.yaml", "Hi you"]),
        (["chat", "Hi you", "plan.yaml"], ["run", "plan.yaml", "Hi you"]),
        (["chat", "Hi"], ["run", "plan.yaml", "Hi"]),
        (["run", "plan.yaml", "Hi", "you"], ["run", "plan.yaml", "Hi you"]),
        (["run", "Hi"], ["run", "plan.yaml", "Hi"]),
        (["run", "Hi you", "./plan.yaml"], ["run", "./plan.yaml", "Hi you"]),
    ):
        done = paddock(*words)
        assert done.returncode == 2 and _commands(done.stderr)[0] == [*meant], (words, done.stderr)
    assert paddock(*meant).stdout.startswith("You said: Hi")


@pytest.mark.exhaustive
def test_a_plan_in_toml_runs_after_the_line_shown() -> None:
    require_level("ns")
    session = '[session]\norchestrator = "loop-basic"\ncontext = "context-simple"\n'
    Path("plan.toml").write_text(
        session + '[[providers]]\nmodule = "provider-mock"\nconfig = {responses = ["It runs."]}\n'
    )
    for command in (("run", "plan.toml", "hi"), ("list", "plan.toml"), ("lock", "plan.toml")):
        done = paddock(*command)
        assert done.returncode == 1 and _commands(done.stderr) == [["init", "--from", "plan.toml"]]
    assert paddock(*_commands(done.stderr)[0]).returncode == 0
    assert "It runs." in paddock("run", "plan.yaml", "hi").stdout


def test_what_a_plan_in_json_needs_is_shown_and_works_when_it_is_written() -> None:
    session = {"orchestrator": "loop-basic", "context": "context-simple"}
    plan = Path("plan.json")
    plan.write_text(json.dumps({"session": session, "providers": [{"module": "provider-mock"}], "tools": []}))
    before = plan.read_bytes()
    done = paddock("add", "builtin:tool-todo", "--to", "plan.json", "--yes")
    assert done.returncode == 1 and plan.read_bytes() == before and not Path("paddock.lock").exists()
    entry = json.loads(done.stderr[done.stderr.index("\n  {\n") : done.stderr.index("\n  }\n") + 5])
    plan.write_text(json.dumps({**json.loads(before), "tools": [entry]}))
    assert "tool-todo" in paddock("list", "plan.json").stdout
    assert paddock(*_commands(done.stderr)[0]).returncode == 0
    done = paddock("remove", "tool-todo", "--from", "plan.json")
    assert done.returncode == 1 and "is `tools[0]`, at plan.json:1" in done.stderr
    assert paddock("remove", "tool-todo", "--from", "plan.yaml").stdout == "plan.yaml is without tool-todo\n"


def test_a_broken_answer_is_no_matter_of_grants(write_module: WriteModule) -> None:
    done = paddock("call", write_module("tool-tell", _TEXT_TOOL), "tell")
    assert done.returncode == 1 and "execute must return a ToolResult" in done.stderr
    assert "no grant" not in done.stderr and "paddock why" not in done.stderr


@pytest.mark.exhaustive
def test_a_module_that_a_plan_names_is_called_by_the_line_shown(write_module: WriteModule) -> None:
    _scripted("tool-count", write_module("tool-count", _HOME_TOOL), "count")
    done = paddock("call", "tool-count", "count", '{"from": "a b"}')
    (command,) = _commands(done.stderr)
    assert paddock(*command).stdout == "call 1\n", done.stderr


def test_a_version_of_a_folder_gets_the_address_that_was_meant(tmp_path: Path) -> None:
    repository(tmp_path / "repo", module_files())
    done = paddock("add", f"{tmp_path}/repo@v1")
    (address,) = re.findall(r"`(git\+file:[^`]+)`", done.stderr)
    assert paddock("add", address).returncode == 0


# -- how a command ends --------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.exhaustive)])
def test_a_call_that_is_ended_says_by_what(number: signal.Signals, write_module: WriteModule) -> None:
    source = write_module("tool-tell", _TEXT_TOOL)
    with Terminal("call", source, "tell", '{"hang": true}', "--json") as terminal:
        terminal.until("hanging")
        os.kill(terminal.pid, number)
        terminal.until(f'"message": "ended by {number.name}"')
        terminal.until(f"ended by {number.name}")
        assert terminal.exit_code() == 130 and "interrupted" not in terminal.shown


def test_a_fetch_that_is_ended_says_by_what(silent_server: str) -> None:
    for command in (
        ["add", silent_server],
        ["init", "new.yaml", "--provider", "provider-mock", "--tool", silent_server, "--yes"],
    ):
        with Terminal(*command) as terminal:
            terminal.until("looking up")
            os.kill(terminal.pid, signal.SIGTERM)
            terminal.until("ended by SIGTERM")
            assert terminal.exit_code() == 130 and "interrupted" not in terminal.shown
    assert not Path("new.yaml").exists()


# -- what is asked -------------------------------------------------------------------------


def test_without_a_terminal_the_reason_of_a_denial_says_so(tmp_path: Path) -> None:
    call = json.dumps({"tool_calls": [{"name": "write_file", "arguments": {"file_path": "a", "content": "b"}}]})
    Path("plan.yaml").write_text(f"""\
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock, config: {{responses: [{call}, "{{last_tool_result}}"]}}}}]
tools: [{{module: tool-filesystem, permissions: workspace}}]
hooks: [{{module: hooks-approval}}]
""")
    done = paddock("run", "plan.yaml", "write it")
    assert "was not allowed (There is no terminal to ask at)" in done.stdout, done.stdout + done.stderr
    assert not Path("a").exists()


def test_what_a_home_that_stays_satisfies_is_not_asked_for_again(tmp_path: Path) -> None:
    repository(tmp_path / "repo", module_files(more='\n[tool.paddock.permissions]\nwrite = ["~/.amplifier"]\n'))
    write_plan()
    done = paddock("add", f"git+file://{tmp_path}/repo@v1", "--to", "plan.yaml")
    assert "state: keep" in Path("plan.yaml").read_text() and "a home that stays" in done.stdout
    assert "not all of what it asks for" not in done.stdout


@pytest.mark.exhaustive
def test_a_home_that_stays_is_proposed_from_the_manifest(write_module: WriteModule) -> None:
    require_level("ns")
    source = Path(write_module("tool-count", _HOME_TOOL))
    manifest = '\n[tool.paddock.permissions]\nwrite = ["~/.amplifier"]\n'
    with (source / "pyproject.toml").open("a") as file:
        file.write(manifest)
    _scripted("tool-count", str(source), "count")
    done = paddock("run", "plan.yaml", "count", "--print-grants")
    shown = " ".join(done.stderr.split())
    assert "would be given keeps a folder of its own from session to session: it writes ~/.amplifier there" in shown
    assert "write in the entry of `tool-count` in the plan:\n  state: keep" in done.stderr, done.stderr
    with Terminal("run", "plan.yaml", "count") as terminal:
        terminal.until("would be given")
        terminal.until("yes, no or stop")
        terminal.type("yes\n")
        terminal.until("call 1")
        assert terminal.exit_code() == 0
    done = paddock("run", "plan.yaml", "count")
    assert (done.stdout, done.returncode) == ("call 2\n", 0), done.stderr
    assert "state: keep" not in done.stderr
    done = paddock("chat", "plan.yaml", stdin="/grant tool-count read=.\n")  # which states what was only accepted
    assert "write at tools[0]: permissions: {read: [.]}, state: keep" in " ".join(done.stderr.split()), done.stderr
