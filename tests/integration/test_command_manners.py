"""What commands understand and say beyond their work: ids, defaults, other kinds, interruptions, odd usage."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import (
    Terminal,
    paddock,
    reachable_level,
    redirected,
    without_reader,
)
from integration.conftest import WriteModule, write_plan
from paddock.module_sources.sourced_modules import named_sources
from paddock.session.tool_call import ToolCallSession
from sources.git_repositories import module_files, repository
from support.examples import IN_FULL, repeating

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_TALKATIVE = """
    import asyncio, sys
    from amplifier_core.models import ToolResult

    class Talkative:
        name = "talk"
        description = "says it, and hangs if it is to"
        input_schema = {"type": "object"}

        async def execute(self, input):
            print("executing", flush=True)
            if input.get("hang"):
                await asyncio.sleep(3600)
            return ToolResult(output=input.get("text"))

    async def mount(coordinator, config):
        print("mounting", flush=True)
        await coordinator.mount("tools", Talkative())
"""


def _greet(*args: str) -> tuple[int, Any, str]:
    done = paddock("call", *args, "--json")
    return done.returncode, json.loads(done.stdout), done.stderr


# -- modules by their ids ------------------------------------------------------------------


@pytest.mark.exhaustive
def test_locked_modules_go_by_their_ids(tmp_path: Path) -> None:
    repository(tmp_path / "repo", module_files(answer="'hello'"))
    assert paddock("add", f"git+file://{tmp_path}/repo@v1").returncode == 0
    assert paddock("list").stdout.split()[0] == "tool-greet"
    # A lock file alone chooses no code: whoever wrote it is not known.
    code, told, said = _greet("tool-greet", "tool_greet", "-q")
    assert (code, told["error"]["type"]) == (1, "ModuleMissingError"), said
    typed = f"`paddock call git+file://{tmp_path}/repo@v1 tool_greet`"
    assert (
        "paddock.lock names a source of `tool-greet`" in said and typed in said and typed in told["error"]["hints"][-1]
    ), said
    assert _greet("tool-graet", "tool_greet")[1]["error"]["hints"][0] == "did you mean `tool-greet`?"
    assert json.loads(paddock("verify", "--json").stdout)["modules"][0]["module"] == "tool-greet"
    # Without its code, only the source has a name, and `verify` fails until it is fetched.
    empty = {"PADDOCK_CACHE_DIR": str(tmp_path / "empty")}
    assert paddock("list", environ=empty).stdout.split()[0] == "repo"
    assert paddock("verify").returncode == 0
    done = paddock("verify", environ=empty)
    assert done.returncode == 1 and "not fetched" in done.stdout and "`paddock sync`" in done.stderr
    assert paddock("sync", environ=empty).returncode == 0
    assert paddock("remove", "tool-greet").returncode == 0

    # Adding what is there says how to replace it.
    write_plan()
    source = f"git+file://{tmp_path}/repo@v1"
    assert paddock("add", source, "--to", "plan.yaml").returncode == 0
    again = paddock("add", source, "--to", "plan.yaml")
    assert again.returncode == 1 and "`paddock remove tool-greet --from plan.yaml`" in again.stderr
    assert "`--as tool-greet-2`" in again.stderr
    assert paddock("add", source, "--to", "plan.yaml", "--as", "tool-greet-2").returncode == 0
    assert paddock("remove", "tool-greet", "--from", "plan.yaml").returncode == 0


def test_a_call_runs_no_code_of_an_unaccepted_plan(tmp_path: Path, write_module: WriteModule) -> None:
    write_module("tool-talk", _TALKATIVE)
    write_plan("{module: tool-talk, source: ./amplifier-module-tool-talk}")
    code, told, said = _greet("tool-talk", "talk", '{"text": "so"}', "-q")
    assert (code, told["error"]["type"]) == (1, "ModuleMissingError") and "mounting" not in said, said
    typed = f'`paddock call {tmp_path}/amplifier-module-tool-talk talk \'{{"text": "so"}}\'`'
    assert typed in said, said
    write_plan("{module: tool-filesystem, source: ./amplifier-module-tool-talk}")
    code, _, said = _greet("tool-filesystem", "talk")
    assert code == 1 and "plan.yaml" not in said  # a stranger's plan puts nothing in the place of what is shipped


@pytest.mark.exhaustive
def test_a_call_finds_a_tool_of_an_accepted_plan_by_its_id(tmp_path: Path) -> None:
    made = repository(tmp_path / "repo", module_files(answer="'one'"))
    tool = f"{{module: tool-greet, source: 'git+file://{tmp_path}/repo@main', permissions: {{read: [../other]}}}}"
    (tmp_path.parent / "other").mkdir(exist_ok=True)
    write_plan(tool)
    assert paddock("lock").returncode == 0
    with Terminal("run", "plan.yaml", "hello") as terminal:
        terminal.until("type the word yes")
        terminal.type("yes\n")
        assert terminal.exit_code() == 0, terminal.shown
    code, told, said = _greet("tool-greet", "tool_greet")
    assert (code, told["output"]) == (0, "one") and "as plan.yaml says" in said, said

    locked = Path("paddock.lock").read_text()
    before, now = made.git("rev-parse", "HEAD").strip(), "0" * 40
    assert before in locked
    Path("paddock.lock").write_text(locked.replace(before, now))  # by a stranger, so that other code would run
    code, told, said = _greet("tool-greet", "tool_greet")
    assert (code, told["error"]["type"]) == (1, "ModuleMissingError"), said
    Path("paddock.lock").write_text(locked)

    (named,) = named_sources("tool-greet", tmp_path, os.environ)
    assert named.is_accepted
    Path("paddock.lock").write_text(locked.replace(before, now))  # at this moment: what was judged counts
    call = ToolCallSession(named.text, "tool_greet", {}, module_id=named.module_id, lock=named.lock)
    assert asyncio.run(call.run()).result.output == "one"
    Path("paddock.lock").write_text(locked)

    Path("paddock.lock").rename("other.lock")
    assert _greet("tool-gret", "tool_greet")[1]["error"]["hints"][0] == "did you mean `tool-greet`?"
    Path("other.lock").rename("paddock.lock")

    write_plan(tool, "{module: tool-todo}")  # another plan than was accepted
    code, told, said = _greet("tool-greet", "tool_greet")
    assert (code, told["error"]["type"]) == (1, "ModuleMissingError"), said

    plan = Path("plan.yaml")
    plan.write_text(f"{plan.read_text()}  - {{modul: x}}\n")
    Path("paddock.lock").unlink()
    code, told, said = _greet("tool-greet", "tool_greet")
    assert (code, told["error"]["type"]) == (1, "ModuleMissingError"), said
    assert f"may name it, and cannot be read: {tmp_path}/plan.yaml:{len(plan.read_text().splitlines())}: " in said, said


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("hooks-logging", "a hook"),
        pytest.param("loop-basic", "an orchestrator", marks=pytest.mark.exhaustive),
        pytest.param("provider-mock", "a provider", marks=pytest.mark.exhaustive),
    ],
)
def test_a_call_of_another_kind_says_so_and_proposes_no_grant(source: str, kind: str) -> None:
    done = paddock("call", source, "x")
    assert done.returncode == 1 and f"module `{source}` is {kind}, and `call` calls tools" in done.stderr
    assert "to allow it" not in done.stderr


# -- plans and prompts ---------------------------------------------------------------------


def test_a_run_takes_plan_yaml_and_knows_a_question(tmp_path: Path) -> None:
    for args in ([], ["what is here?"], ["nowhere.yaml", "go"]):
        done = paddock("run", *args)
        assert done.returncode == 1 and "`paddock init " in done.stderr, done.stderr
    assert "first `paddock init`, then: `paddock run plan.yaml hello`" in paddock("run", "hello").stderr
    Path("plan.toml").touch()
    assert "first `paddock init --from plan.toml`, then:" in paddock("run", "hello").stderr
    Path("plan.toml").unlink()
    write_plan()
    assert paddock("run", "what is here?").stdout == "You said: what is here?\n"
    assert paddock("run", stdin="and this?").stdout == "You said: and this?\n"
    done = paddock("run", "hello")
    assert done.returncode == 2 and "if that is the prompt: `paddock run plan.yaml hello`" in done.stderr
    done = paddock("run", "what is here?", "plan.yaml")
    assert done.returncode == 2 and "the plan comes first" in done.stderr


# -- what is said --------------------------------------------------------------------------


def test_what_is_granted_by_name_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE_SET", raising=False)
    options = ["--allow-env=NOWHERE_SET,MODE=fast", "--allow-secrets=NOWHERE_SET"]
    done = paddock("call", "tool-todo", "todo", "{}", *options)
    assert done.returncode == 1
    assert "--allow-env: environment variable `NOWHERE_SET` is not set" in done.stderr
    assert "--allow-secrets: secret `NOWHERE_SET` is not set" in done.stderr


@pytest.mark.exhaustive
def test_characters_are_shown_as_themselves(tmp_path: Path) -> None:
    Path("notes.txt").write_text("grün 日本 \u202e\x9b", encoding="utf-8")
    call = ["call", "tool-filesystem", "read_file", '{"file_path": "notes.txt"}', "--allow-read=."]
    for options in ([], ["--json"]):
        shown = paddock(*call, *options).stdout
        assert "grün 日本" in shown and "\\u202e" in shown and "\u202e" not in shown and "\x9b" not in shown
    shown = paddock(*call, "--json", environ={"PYTHONIOENCODING": "latin-1"}).stdout.encode()
    assert b"gr\\u00fcn" in shown or b"gr\xc3\xbcn" in shown


@pytest.mark.exhaustive
def test_isolation_is_said_before_modules_speak(write_module: WriteModule) -> None:
    source = write_module("tool-talk", _TALKATIVE)
    write_plan(f"{{module: tool-talk, source: '{source}'}}")
    for command in (["call", source, "talk"], ["run", "plan.yaml", "go", "--trust-plan"]):
        lines = paddock(*command).stderr.splitlines()
        assert lines.index(f"isolation: {reachable_level()}") < lines.index("tool-talk | mounting")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGTERM, "ended by SIGTERM"),
        *repeating((signal.SIGINT, "interrupted"), (signal.SIGHUP, "ended by SIGHUP")),
    ],
)
def test_a_run_that_is_ended_says_by_what(number: signal.Signals, said: str, write_module: WriteModule) -> None:
    code = "import asyncio\nasync def mount(coordinator, config):\n    print('mounting')\n    await asyncio.sleep(3600)"
    write_plan(f"{{module: tool-slow, source: '{write_module('tool-slow', code)}'}}")
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "paddock/audit.jsonl"
    with Terminal("run", "plan.yaml", "go", "--trust-plan") as terminal:
        terminal.until("tool-slow | mounting")
        os.kill(terminal.pid, number)
        terminal.until(said)
        assert terminal.exit_code() == 130
    events = [json.loads(line) for line in state.read_text().splitlines()]
    assert events[-1]["event"] == "session.ended", events[-1]


@pytest.mark.exhaustive
def test_a_quiet_run_that_is_ended_says_by_what_alone(write_module: WriteModule) -> None:
    code = """
        import asyncio
        async def mount(coordinator, config):
            coordinator.display_system.show_message("mounting", "warning", "slow")
            await asyncio.sleep(3600)
    """
    write_plan(f"{{module: tool-slow, source: '{write_module('tool-slow', code)}'}}")
    numbers = {signal.SIGINT: "interrupted", **({signal.SIGTERM: "ended by SIGTERM"} if IN_FULL else {})}
    for number, said in numbers.items():
        with Terminal("run", "plan.yaml", "-q", "go", "--trust-plan") as terminal:
            terminal.until("mounting")
            os.kill(terminal.pid, number)
            assert terminal.exit_code() == 130
            assert re.sub(r"\x1b\[\d*m", "", terminal.shown).split() == said.split()


def test_a_reader_of_messages_that_leaves_changes_no_exit_code() -> None:
    write_plan()
    with open(os.devnull, "w") as nothing, os.fdopen(without_reader(), "w") as stderr:
        for args, code in ((["run", "plan.yaml", "hi"], 0), (["run", "gone.yaml", "hi"], 1), (["run", "--odd"], 2)):
            assert redirected(*args, stdout=nothing.fileno(), stderr=stderr.fileno()) == code


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive), signal.SIGHUP])
def test_a_chat_that_is_ended_ends_its_session(number: signal.Signals) -> None:
    write_plan()
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "paddock/audit.jsonl"
    with Terminal("chat", "plan.yaml", "--trust-plan") as terminal:
        terminal.until("\x1b[?2004h")
        terminal.type("hi\r")
        terminal.until("You said: hi")
        os.kill(terminal.pid, number)
        terminal.until(f"ended by {number.name}")
        assert terminal.exit_code() == 130
    events = [json.loads(line) for line in state.read_text().splitlines()]
    assert events[-1]["event"] == "session.ended", events[-1]


# -- the cache and usage -------------------------------------------------------------------


def test_an_age_that_may_be_months_is_refused() -> None:
    done = paddock("cache", "prune", "--older-than", "1m")
    assert done.returncode == 2 and "write `1min`, or days as in 30d" in done.stderr
    assert paddock("cache", "prune", "--older-than", "1min").returncode == 0


def test_the_version_and_usage_errors_are_had_in_each_form() -> None:
    assert paddock("-V").stdout == paddock("--version").stdout
    assert "permissions" in paddock("help").stdout
    done = paddock("run", "--nope", "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["type"] == "UsageError"
    told = json.loads(paddock("call", "--json").stdout)
    assert (told["success"], told["output"], told["error"]["type"]) == (False, None, "UsageError")
    assert paddock("call", "--", "--json").stdout == ""


def test_a_folder_whose_links_form_a_loop_is_named(tmp_path: Path) -> None:
    Path("loop").symlink_to("loop")
    plan = Path("plan.yaml")
    start = "session: {orchestrator: loop-basic, context: context-simple}\ntools:\n"
    for source in ("./loop", f"{tmp_path}/loop", "./loop/inside"):
        plan.write_text(f"{start}  - {{module: tool-x, source: {source}}}\n")
        for args in (["call", source, "x"], ["add", source], ["lock"], ["list"], ["run", "plan.yaml", "hi"]):
            done = paddock(*args)
            assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (args, done.stderr)
            assert args == ["lock"] or "/loop" in done.stdout + done.stderr, done
