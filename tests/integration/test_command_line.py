"""The command line as scripts and people see it: exit codes, what is on stdout, what on stderr, and Ctrl-C."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import (
    Terminal,
    diagnosis,
    paddock,
    reachable_level,
    require_unreachable,
)
from integration.conftest import WriteModule
from paddock.plan.load import load_plan
from paddock.policy.files.grants import GrantsFile
from paddock.policy.owner import Owner
from paddock.policy.trust import PlanAcceptance, with_places
from support.examples import repeating

pytestmark = pytest.mark.usefixtures("commands_end")

_LOOK_FIRST = "programs of yours may run what is in it: look at it first"

_TRICKY = """
    import asyncio, os, signal, sys

    from amplifier_core.models import ToolResult

    class Tricky:
        name = "tricky"
        description = "does what it is told to"

        def __init__(self, config):
            self.config = config

        async def execute(self, input):
            match input.get("do"):
                case "segfault":
                    os.kill(os.getpid(), signal.SIGSEGV)
                case "raise":
                    raise LookupError("no such \\x1b[31mthing")
                case "cancel":
                    raise asyncio.CancelledError("enough \\x1b[31mof this")
                case "odd keys":
                    return ToolResult(output={"\\udc80": "\\udc80", frozenset({"y", "x"}): 1, (1, b"\\xff"): {None: 2}})
                case "not sendable":
                    return ToolResult(output=object())
                case "not json":
                    return ToolResult(output={"bytes": b"\\xff", "number": float("inf"), "set": {1}})
                case "hang":
                    await asyncio.sleep(3600)
                case "print":
                    print("out \\x1b[2Jloud")
                    print("err", file=sys.stderr)
                case "config":
                    return ToolResult(output=self.config)
                case "text":
                    return ToolResult(output="plain\\ntext")
            return ToolResult(output={"input": input, "folder": os.getcwd()})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Tricky(config))
"""


@pytest.fixture
def tricky(write_module: WriteModule) -> str:
    return write_module("tool-tricky", _TRICKY)


def _told(done: subprocess.CompletedProcess[str]) -> Any:
    """Return the one JSON object that stdout has to be."""
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def _plan(tmp_path: Path, **changes: Any) -> str:
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"fallback": "You said: {prompt}"}}],
        **changes,
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    return str(path)


def _calling(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return a provider that calls a tool once and then repeats its result."""
    calls = [{"tool_calls": [{"name": tool, "arguments": arguments}]}]
    return [{"module": "provider-mock", "config": {"responses": calls, "fallback": "It said: {last_tool_result}"}}]


# -- call ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "code", "kind", "said"),
    [
        # Those that only fail are in the frozen `good_and_failed_calls`.
        ("segfault", 5, "ModuleDiedError", "SIGSEGV"),
        ("raise", 1, "LookupError", "no such"),
        ("not sendable", 1, None, "cannot be sent"),
    ],
)
def test_a_call_that_fails_says_so_by_its_exit_code_and_result(
    tricky: str, do: str, code: int, kind: str | None, said: str
) -> None:
    done = paddock("call", tricky, "tricky", json.dumps({"do": do}), "--json")
    told = _told(done)
    assert done.returncode == code
    assert set(told) == {"success", "output", "error", "resources", "unreported_programs"}
    assert told["success"] is False
    assert kind in (None, told["error"]["type"])
    assert said in told["error"]["message"]
    assert said in done.stderr and "\x1b" not in done.stderr
    if do == "segfault":
        report = told["error"]["report"]
        assert (report["reason"], report["signal"], report["call_in_flight"]) == ("signalled", "SIGSEGV", "execute")


def test_what_a_tool_returns_is_on_stdout(tricky: str, tmp_path: Path) -> None:
    done = paddock("call", tricky, "tricky", '{"a": [1, "ü"]}', "-C", str(tmp_path), "--allow-read=.", "--json")
    assert done.returncode == 0
    told = _told(done)
    assert (told["success"], told["error"]) == (True, None)
    assert told["output"] == {"input": {"a": [1, "ü"]}, "folder": str(tmp_path)}
    assert f"isolation: {reachable_level()}" in done.stderr.splitlines()


def test_a_result_that_json_cannot_express_is_json_all_the_same(tricky: str) -> None:
    output = _told(paddock("call", tricky, "tricky", '{"do": "not json"}', "--json"))["output"]
    assert output["number"] is None and output["set"] == [1] and isinstance(output["bytes"], str)


def test_a_tool_that_cancels_itself_is_one_that_failed(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "cancel"}', "--json")
    told = _told(done)
    assert done.returncode not in (0, 130)
    assert told.keys() == {"success", "output", "error", "resources", "unreported_programs"}
    assert told["success"] is False and "cancel" in told["error"]["message"].lower()
    assert "\x1b" not in done.stderr


def test_keys_that_json_has_no_form_for_become_text(tricky: str) -> None:
    output = _told(paddock("call", tricky, "tricky", '{"do": "odd keys"}', "--json"))["output"]
    assert output == {"\udc80": "\udc80", '["x", "y"]': 1, '[1, "_w=="]': {"null": 2}}


def test_the_input_of_a_tool_may_come_from_stdin(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", "-", "--json", stdin='{"from": "stdin"}')
    assert _told(done)["output"]["input"] == {"from": "stdin"}


def test_a_module_gets_its_configuration(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "config"}', "--config", '{"k": 1}', "--json")
    assert _told(done)["output"] == {"k": 1}


def test_a_source_is_also_a_relative_folder_or_the_id_of_what_is_shipped(tricky: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content", encoding="utf-8")
    relative = paddock("call", f"./{Path(tricky).name}", "tricky", '{"do": "text"}', cwd=tmp_path)
    assert (relative.returncode, relative.stdout) == (0, "plain\ntext\n"), relative.stderr
    for source in ("tool-filesystem", "builtin:tool-filesystem"):
        done = paddock("call", source, "read_file", '{"file_path": "file"}', "--allow-read=.", "--json", cwd=tmp_path)
        assert "content" in _told(done)["output"]["content"]


def test_what_a_module_prints_is_shown_escaped_under_its_name(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "print"}')
    assert r"tool-tricky | out \x1b[2Jloud" in done.stderr
    assert "tool-tricky | err" in done.stderr


def test_a_module_that_is_no_tool_is_told_to_be_none() -> None:
    done = paddock("call", "loop-basic", "x", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["error"]["type"] == "NoToolError"
    assert "may not mount at `orchestrator`" in done.stderr


@pytest.mark.parametrize(
    ("source", "tool", "options", "kind", "said"),
    [
        ("tool-filesistem", "x", [], "ModuleMissingError", "did you mean `tool-filesystem`?"),
        ("./nowhere", "x", [], "ModuleMissingError", "no such file"),
        ("tool-filesystem", "read_fil", [], "ToolMissingError", "did you mean `read_file`?"),
        (
            "tool-filesystem",
            "read_file",
            ["--allow-read=./nowhere"],
            "GrantError",
            "--allow-read: `./nowhere` does not",
        ),
        ("tool-filesystem", "read_file", ["--allow-write=/etc"], "GrantError", "--allow-write: `/etc` is in `/etc`"),
        ("tool-filesystem", "read_file", ["--allow-read=/proc"], "GrantError", "the kernel's and never granted"),
        ("tool-filesystem", "read_file", ["--allow-run=gti"], "GrantError", "--allow-run: no program `gti`"),
        ("tool-filesystem", "read_file", ["--config", '{"k": "${NAME}"}'], "PlanError", "add `--allow-secrets=NAME`"),
        (
            "tool-filesystem",
            "read_file",
            ["--config", '{"k": "${NAME}"}', "--allow-secrets=NAME"],
            "PlanError",
            "--allow-secrets: secret `NAME` is not set",
        ),
    ],
)
def test_a_call_that_cannot_start_is_explained_and_still_a_result(
    source: str, tool: str, options: list[str], kind: str, said: str
) -> None:
    done = paddock("call", source, tool, "{}", *options, "--json")
    told = _told(done)
    assert done.returncode == 1
    assert (told["success"], told["error"]["type"], told["error"]["report"]) == (False, kind, None)
    assert said in done.stderr


def test_a_call_that_may_write_to_git_says_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "."], check=True, timeout=60)
    Path("file").write_text("here")
    for written in (".git", ".,.git", ".git/hooks", "."):
        options = ["--allow-read=.", f"--allow-write={written}"]
        done = paddock("call", "tool-filesystem", "read_file", '{"file_path": "file"}', *options)
        assert done.returncode == 0, done.stderr
        is_said = "it may commit, and your next git command there may run its code" in done.stderr
        assert is_said == (".git" in written), (written, done.stderr)


@pytest.mark.parametrize(
    ("code", "stage", "said"),
    [
        ("import nothing_of_that_name", 1, "nothing_of_that_name"),
        ("def mounted(): ...", 1, "no function `mount`"),
        ("async def mount(coordinator, config):\n    raise ValueError('not today')", 1, "not today"),
        ("import os\nos.kill(os.getpid(), 11)", 5, "SIGSEGV"),
        ("import time\nasync def mount(coordinator, config):\n    time.sleep(3600)", 5, "not mounted within"),
    ],
)
def test_a_module_that_cannot_be_mounted_is_explained(
    write_module: WriteModule, code: str, stage: int, said: str
) -> None:
    source = write_module("tool-broken", code)
    done = paddock("call", source, "x", "--limit", "start_max=2s", "--json")
    told = _told(done)
    assert done.returncode == stage
    assert told["error"]["type"] == "ModuleLoadError"
    assert said in told["error"]["message"] and said in done.stderr
    assert told["error"]["report"]["module"] == "tool-broken"


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["call"],
        ["call", "tool-filesystem", "read_file", "{not json"],
        ["call", "tool-filesystem", "read_file", "[]"],
        ["call", "tool-filesystem", "read_file", '{"n": NaN}'],
        ["call", "tool-filesystem", "read_file", "[" * 100_000],
        ["call", "tool-filesystem", "read_file", "--limit", "runtime_max"],
        ["call", "tool-filesystem", "read_file", "--limit", "runtime_max=soon"],
        ["call", "tool-filesystem", "read_file", "--limit", "runtim_max=1s"],
        ["call", "tool-filesystem", "read_file", "--limit", "memory_max=lots"],
        ["call", "tool-filesystem", "read_file", "--isolation", "strong"],
        ["call", "tool-filesystem", "read_file", "--allow-read="],
        ["call", "tool-filesystem", "read_file", "--allow-env=1A"],
        ["call", "tool-filesystem", "read_file", "--allow-net=*"],
        ["call", "tool-filesystem", "read_file", "--allow-net=https://example.com/"],
        ["call", "tool-filesystem", "read_file", "--allow-all=x"],
        ["call", "tool-filesystem", "read_file", "--trust-plan"],
        ["run", "plan.yaml", "prompt", "--isolation", "strong"],
        ["run", "plan.yaml", "prompt", "--allow-read=."],
        ["run", "plan.yaml", "prompt", "--grant", "tool-filesystem"],
        ["run", "plan.yaml", "prompt", "--grant", "tool-filesystem=everything"],
        ["doctor", "everything"],
        ["selftest", "--isolation", "strong"],
        ["run", "plan.yaml", "prompt", "-C", "/nowhere/at/all"],
        ["run", "plan.yaml", "  "],
        ["nonsense"],
    ],
    ids=lambda args: " ".join(args)[:60],
)
def test_a_command_that_is_not_understood_is_a_usage_error(args: list[str]) -> None:
    done = paddock(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: paddock" in done.stderr


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["run", "plan.yaml", "What", "changed"], "the prompt is one argument: `paddock run plan.yaml 'What changed'`"),
        (["module", "test", ".", "-k", "deny"], "one for pytest comes behind `--`, as in `-- -k`"),
    ],
    ids=["a prompt without quotes", "an option of pytest's"],
)
def test_a_usage_error_says_what_was_meant(args: list[str], hint: str) -> None:
    done = paddock(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr


# -- run -----------------------------------------------------------------------------------


def test_a_turn_answers_on_stdout_and_says_how_its_modules_are_shut_in(tmp_path: Path) -> None:
    done = paddock("run", _plan(tmp_path), "hello", "-C", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert f"3 modules started, isolation: {reachable_level()}" in done.stderr.splitlines()


def test_the_prompt_may_come_from_stdin(tmp_path: Path) -> None:
    assert "You said: from there" in paddock("run", _plan(tmp_path), stdin="from there\n").stdout


def test_a_turn_for_scripts_is_one_object(tmp_path: Path) -> None:
    told = _told(paddock("run", _plan(tmp_path), "hello", "--json"))
    assert set(told) == {"session_id", "response", "modules", "tracebacks", "error"}
    assert (told["response"], told["error"]) == ("You said: hello", None)
    assert told["session_id"]
    assert [set(module) for module in told["modules"]] == [
        {"module", "kind", "level", "restarts", "denials", "exit_reports", "resources", "unreported_programs"}
    ] * 3
    assert [(module["module"], module["exit_reports"]) for module in told["modules"]] == [
        ("loop-basic", []),
        ("context-simple", []),
        ("provider-mock", []),
    ]


def test_a_turn_goes_on_when_its_tool_dies(tmp_path: Path, tricky: str) -> None:
    plan = _plan(
        tmp_path,
        providers=_calling("tricky", do="segfault"),
        tools=[{"module": "tool-tricky", "source": tricky}],
    )
    done = paddock("run", plan, "go", "--json")
    told = _told(done)
    assert done.returncode == 0
    assert "SIGSEGV" in told["response"]
    (report,) = told["modules"][-1]["exit_reports"]
    assert report["signal"] == "SIGSEGV"
    assert "killed by SIGSEGV" in done.stderr


def test_three_mistakes_in_a_plan_are_three_messages_with_their_places(tmp_path: Path) -> None:
    plan = _plan(
        tmp_path,
        tools=[{"module": "tool-filesystem", "limits": {"memroy_max": "1M"}}, {"modul": "tool-x"}],
        hooks=[{"module": "hooks-logging", "limits": {"runtime_max": "soon"}}],
    )
    done = paddock("run", plan, "hello", "--json")
    told = _told(done)
    assert done.returncode == 1
    assert (told["session_id"], told["response"], told["modules"]) == (None, None, [])
    assert told["error"]["type"] == "PlanError"
    for place, suggestion in {
        "tools[0].limits.memroy_max": "did you mean `memory_max`?",
        "tools[1].modul": "did you mean `module`?",
        "hooks[0].limits.runtime_max": "a duration is a number with",
    }.items():
        assert f"{place}: {suggestion}" in done.stderr
    assert {"tools[0].limits", "tools[1]", "hooks[0].limits.runtime_max"} <= {
        problem["path"] for problem in told["error"]["problems"]
    }


@pytest.mark.parametrize("plan", ["missing.yaml", "plan.txt"])
def test_a_plan_that_cannot_be_read_is_the_users_to_fix(tmp_path: Path, plan: str) -> None:
    (tmp_path / "plan.txt").write_text("{}", encoding="utf-8")
    done = paddock("run", str(tmp_path / plan), "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert plan in done.stderr


def test_a_module_that_is_not_found_ends_the_run_with_what_was_tried(tmp_path: Path) -> None:
    done = paddock("run", _plan(tmp_path, tools=[{"module": "tool-filesistem"}]), "hello", "--json")
    assert done.returncode == 1
    assert _told(done)["error"]["type"] == "ModuleMissingError"
    assert "AMPLIFIER_MODULE_TOOL_FILESISTEM" in done.stderr and "did you mean `tool-filesystem`?" in done.stderr


def test_a_turn_does_without_a_tool_that_cannot_be_loaded(tmp_path: Path, write_module: WriteModule) -> None:
    source = write_module("tool-broken", "raise ImportError('not here')")
    done = paddock("run", _plan(tmp_path, tools=[{"module": "tool-broken", "source": source}]), "hello")
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert "error: module `tool-broken` cannot be imported: ImportError: not here" in done.stderr
    assert "Traceback" in done.stderr


_LOOP = """
    class Loop:
        async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
            {body}

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Loop())
"""


@pytest.mark.parametrize(
    ("code", "exit_code", "kind", "said"),
    [
        # One that raises, and one whose answer is no text, are in the frozen `a_session`.
        (_LOOP.format(body="import os; os.kill(os.getpid(), 11)"), 5, "ModuleDiedError", "SIGSEGV"),
        ("async def mount(coordinator, config): pass", 1, "ModuleLoadError", "mounted nothing"),
        ("import os; os._exit(3)", 5, "ModuleLoadError", "exited with code 3"),
        ("raise ValueError('no')", 1, "ModuleLoadError", "ValueError: no"),
    ],
)
def test_a_turn_that_fails_ends_with_the_code_of_the_cause(
    tmp_path: Path, write_module: WriteModule, code: str, exit_code: int, kind: str, said: str
) -> None:
    orchestrator = {"module": "loop-own", "source": write_module("loop-own", code)}
    done = paddock(
        "run", _plan(tmp_path, session={"orchestrator": orchestrator, "context": "context-simple"}), "x", "--json"
    )
    told = _told(done)
    assert (done.returncode, told["response"], told["error"]["type"]) == (exit_code, None, kind)
    assert said in told["error"]["message"] and said in done.stderr
    assert f"isolation: {reachable_level()}" in done.stderr


def test_a_turn_that_fails_because_its_provider_died_is_told_apart(tmp_path: Path, write_module: WriteModule) -> None:
    source = write_module(
        "provider-fragile",
        """
        import os

        class Fragile:
            name = "fragile"
            priority = 1
            def get_info(self): return None
            async def list_models(self): return []
            async def complete(self, request, **kwargs): os._exit(9)
            def parse_tool_calls(self, response): return []

        async def mount(coordinator, config):
            await coordinator.mount("providers", Fragile())
        """,
    )
    done = paddock("run", _plan(tmp_path, providers=[{"module": "provider-fragile", "source": source}]), "x", "--json")
    told = _told(done)
    assert (done.returncode, told["error"]["type"]) == (5, "TurnError")
    assert told["error"]["report"]["code"] == 9


_CANCELLING = """
    import asyncio

    class Loop:
        async def execute(self, prompt, context, providers, tools, hooks, **rest):
            raise asyncio.CancelledError("enough \\x1b[31mof this")

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Loop())
"""


def test_a_turn_that_its_orchestrator_cancels_is_one_that_failed(tmp_path: Path, write_module: WriteModule) -> None:
    loop = {"module": "loop-cancelling", "source": write_module("loop-cancelling", _CANCELLING)}
    plan = _plan(tmp_path, session={"orchestrator": loop, "context": "context-simple"})
    done = paddock("run", plan, "hello", "--json")
    told = _told(done)
    assert done.returncode not in (0, 130)
    assert "cancel" in told["error"]["message"].lower()
    assert "\x1b" not in done.stderr
    assert [module["module"] for module in told["modules"]] == ["loop-cancelling", "context-simple", "provider-mock"]


def test_every_module_is_listed_when_more_is_asked_for(tmp_path: Path) -> None:
    done = paddock("run", _plan(tmp_path), "hello", "-v")
    listed = [line.split() for line in done.stderr.splitlines() if "started" in line and "modules" not in line]
    assert [line[0] for line in listed] == ["loop-basic", "context-simple", "provider-mock"]
    assert all(f"isolation: {reachable_level()}" in " ".join(line) for line in listed)


_ASKING = """
    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        async def ask(event, data):
            return HookResult(
                action="ask_user",
                approval_prompt="Run \\x1b[2Jthis?",
                approval_options=["Allow", "Deny"],
                approval_timeout=config.get("timeout", 60.0),
                approval_default=config.get("default", "deny"),
            )

        async def tell(event, data):
            return HookResult(
                action="inject_context",
                context_injection="noted",
                user_message="done \\x1b]0;owned\\x07",
                user_message_level="warning",
            )

        coordinator.hooks.register("tool:pre", ask, name="ask")
        coordinator.hooks.register("tool:post", tell, name="tell")
"""


def _asking_plan(tmp_path: Path, write_module: WriteModule, tricky: str, do: str = "text", **config: Any) -> str:
    return _plan(
        tmp_path,
        providers=_calling("tricky", do=do),
        tools=[{"module": "tool-tricky", "source": tricky}],
        hooks=[{"module": "hooks-asking", "source": write_module("hooks-asking", _ASKING), "config": config}],
    )


@pytest.mark.parametrize(("default", "outcome"), [("allow", "It said: plain"), ("deny", "It said: Denied")])
def test_without_a_terminal_a_question_is_answered_by_its_default(
    tmp_path: Path, write_module: WriteModule, tricky: str, default: str, outcome: str
) -> None:
    done = paddock("run", _asking_plan(tmp_path, write_module, tricky, default=default), "go")
    assert done.stdout.startswith(outcome)
    assert rf"so the answer to module `hooks-asking` (hook) is {default}: Run \x1b[2Jthis?" in done.stderr
    if default == "allow":  # what the hook says of the result is shown with level and source
        (line,) = [line for line in done.stderr.splitlines() if "owned" in line]
        assert line.startswith("warning: ") and r"done \x1b]0;owned\x07" in line


# -- grants, limits and isolation ----------------------------------------------------------

_GRANTED = """
    import os, subprocess

    from amplifier_core.models import ToolResult

    def outcome(act):
        try:
            return act()
        except OSError as error:
            return type(error).__name__

    class GrantedModule:
        name = "granted"
        description = "tries what it is told to"

        async def execute(self, input):
            folder = input.get("folder")
            if "hook" in input:
                os.makedirs(f"{folder}/.git/hooks", exist_ok=True)
                with open(f"{folder}/.git/hooks/pre-commit", "w") as file:
                    file.write("exit 1")
            if input.get("then") == "die":
                os._exit(7)
            return ToolResult(output={
                "read": outcome(lambda: open(f"{folder}/file").read()),
                "write": outcome(lambda: open(f"{folder}/new", "w").write("text")),
                "run": outcome(lambda: subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode),
                "env": os.environ.get("PROBE"),
            })

    async def mount(coordinator, config):
        await coordinator.mount("tools", GrantedModule())
"""


@pytest.fixture
def granted(write_module: WriteModule) -> str:
    return write_module("tool-granted", _GRANTED)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, apart from modules and plans."""
    made = tmp_path / "granted"
    made.mkdir()
    (made / "file").write_text("content", encoding="utf-8")
    return made


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ([], {}),
        (["--allow-write={folder}"], {"read": "content", "write": 4}),
        (["--allow-env=PROBE=set,LANG"], {"env": "set"}),
        (["--allow-read={folder}", "--allow-run=sh,true", "--allow-env", "PROBE"], {"read": "content", "run": 3}),
        *repeating(
            (["--allow-read={folder}"], {"read": "content"}),
            (["--allow-run=sh"], {"run": 3}),
            (["--allow-env=PROBE"], {"env": "from outside"}),
            (["--allow-env=PROBE=a,,b"], {"env": "a,b"}),
        ),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_a_module_can_do_what_was_allowed_and_nothing_else(
    granted: str, folder: Path, options: list[str], changed: dict[str, object]
) -> None:
    given = [option.format(folder=folder) for option in options]
    call = [granted, "granted", json.dumps({"folder": str(folder)})]
    done = paddock("call", *call, *given, "--json", environ={"PROBE": "from outside"})
    output = _told(done)["output"]
    if "PROBE" in options:
        changed = {**changed, "env": "from outside"}
    refused = {name: output[name] for name in output if name not in changed}
    assert {name: output[name] for name in changed} == changed
    assert set(refused.values()) <= {"PermissionError", "FileNotFoundError", "OSError", None}  # the last one: EROFS


def test_an_allowed_secret_reaches_the_configuration_and_is_not_shown(tricky: str) -> None:
    call = ["call", tricky, "tricky", '{"do": "config"}', "--config", '{"key": "${API_KEY}"}', "--json"]
    environ = {"API_KEY": "hidden"}
    done = paddock(*call, "--allow-secrets=API_KEY", environ=environ)
    assert _told(done)["output"] == {"key": "[secret API_KEY]"}
    assert "hidden" not in done.stderr
    refused = paddock(*call, environ=environ)
    assert refused.returncode == 1
    assert "--config key" in refused.stderr and "hidden" not in refused.stderr + refused.stdout


def test_a_grant_by_way_of_a_link_is_shown(granted: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("granted")
    call = ["call", granted, "granted", json.dumps({"folder": str(folder)}), "-C", str(tmp_path), "--json"]
    done = paddock(*call, "--allow-read=link")
    assert _told(done)["output"]["read"] == "content"
    assert f"tool-granted: read {folder} (by way of {tmp_path}/link -> granted)" in done.stderr
    assert "by way of" not in paddock(*call, "--allow-read=granted").stderr


@pytest.mark.parametrize("then", ["die", *repeating("end well")])
def test_changed_guarded_files_are_reported_after_any_call(granted: str, folder: Path, then: str) -> None:
    call = json.dumps({"folder": str(folder), "hook": True, "then": then})
    done = paddock("call", granted, "granted", call, f"--allow-write={folder}", "--json")
    assert done.returncode == (5 if then == "die" else 0)
    assert f"warning: {folder}/.git/hooks appeared during the run; {_LOOK_FIRST}" in done.stderr.splitlines()


@pytest.mark.parametrize("then", ["end well", *repeating("die")])
def test_changed_guarded_files_are_reported_after_any_turn(
    tmp_path: Path, write_module: WriteModule, folder: Path, then: str
) -> None:
    code = f"""
        import os

        class Loop:
            async def execute(self, prompt, context, providers, tools, hooks, **rest):
                os.makedirs("{folder}/.git/hooks")
                {"os._exit(9)" if then == "die" else "return 'well'"}

        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Loop())
    """
    loop = {
        "module": "loop-hooking",
        "source": write_module("loop-hooking", code),
        "permissions": {"write": [str(folder)]},
    }
    plan = _plan(tmp_path, session={"orchestrator": loop, "context": "context-simple"})
    done = paddock("run", plan, "x", "--trust-plan")
    assert done.returncode == (5 if then == "die" else 0)
    assert f"warning: {folder}/.git/hooks appeared during the run; {_LOOK_FIRST}" in done.stderr.splitlines()


def test_the_grants_of_every_module_are_listed_when_more_is_asked_for(tmp_path: Path, folder: Path) -> None:
    tools = [
        {"module": "tool-filesystem", "permissions": {"read": [str(folder)], "run": ["sh"], "env": ["A=hidden"]}},
    ]
    run = ["run", _plan(tmp_path, tools=tools), "hello", "--trust-plan"]
    done = paddock(*run, "-v", environ={"COLUMNS": "300"})
    lines = [line.split(maxsplit=1) for line in done.stderr.splitlines()]
    assert ["tool-filesystem", f"read {folder}"] in lines
    assert ["tool-filesystem", "env A"] in lines
    assert any(line[0] == "tool-filesystem" and line[1].startswith("run ") for line in lines if len(line) == 2)
    assert ["loop-basic", "nothing is granted"] in lines
    assert "hidden" not in done.stderr
    assert f"read {folder}" not in paddock(*run).stderr


_SAYING = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers:
  - module: provider-mock
tools:
  - module: tool-filesystem
    {said}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder to work in, beside another one, with a link from the one to the other."""
    for name in ("work/inside", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work/link").symlink_to("../other")
    return tmp_path / "work"


def test_grants_that_need_acceptance_are_refused_until_then(project: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    granted = (
        "{read: [inside, ../other, /usr/share, link], write: [../other, link], net: [example.com], "
        "secrets: [PROBE], env: [PROBE]}"
    )
    plan.write_text(_SAYING.format(said=f"permissions: {granted}\n    isolation: none"), encoding="utf-8")
    places = {
        *(f"permissions.read[{index}]" for index in (1, 2, 3)),
        *(f"permissions.write[{index}]" for index in (0, 1)),
        *(f"permissions.{family}[0]" for family in ("net", "secrets", "env")),
        "isolation",
    }
    run = ["run", str(plan), "hello", "-C", str(project), "--isolation", reachable_level(), "--json"]
    refused = paddock(*run, environ={"PROBE": "a probe"})
    told = _told(refused)
    assert (refused.returncode, told["response"], told["error"]["type"]) == (4, None, "PolicyRefusedError")
    problems = told["error"]["problems"]
    assert {(one["path"], one["file"], one["line"]) for one in problems} == {
        (f"tools[0].{place}", str(plan), 7 if place == "isolation" else 6) for place in places
    }
    assert len(problems) == len(places)
    for problem in problems:
        place, rule = problem["path"], problem["rule"]
        assert rule["text"].startswith("a plan that you have not accepted gets no network") and rule["line"] is None
        assert f"{plan}:{problem['line']}: {place}: " in refused.stderr
        assert f"by {rule['file']}: {rule['text']}" in refused.stderr
    assert "hint: take it out of the plan, or accept the plan:" in refused.stderr
    assert "hint: tools[0].isolation: take it out of the plan, or accept the plan:" in refused.stderr
    # Once for all that stand together: it is long.
    assert refused.stderr.count("a plan that you have not accepted gets no network") == 1
    assert not told["modules"] and "started" not in refused.stderr
    # At level `none`, which enforces none of them, all are had once they are accepted.
    accepted = paddock(*run, "--trust-plan", environ={"PROBE": "a probe"})
    assert accepted.returncode == 0, accepted.stderr


def test_an_unaccepted_plan_gets_what_needs_no_acceptance(project: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    granted = "{read: [.], write: [inside], env: [A=b], run: [sh], call: [tools], hooks: ['tool:*'], emit: [x]}"
    plan.write_text(_SAYING.format(said=f"permissions: {granted}"), encoding="utf-8")
    done = paddock("run", str(plan), "hello", "-C", str(project))
    assert done.returncode == 0, done.stderr


def _accept(plan: Path, project: Path) -> GrantsFile:
    """Have a plan accepted as it is, for a folder to work in, and return where that is kept."""
    grants = GrantsFile.of_user(os.environ)
    PlanAcceptance.accepting(with_places(load_plan(plan), project, Owner.current(os.environ)), grants)
    return grants


def test_an_edited_plan_is_not_the_accepted_one(project: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(_SAYING.format(said="permissions: {read: [../other]}"), encoding="utf-8")
    grants = _accept(plan, project)
    run = ["run", str(plan), "hello", "-C", str(project), "--json"]
    assert paddock(*run).returncode == 0
    plan.write_text(_SAYING.format(said="permissions: {read: [../other, /usr/share]}"), encoding="utf-8")
    refused = paddock(*run)
    problems = _told(refused)["error"]["problems"]
    assert refused.returncode == 4
    assert [problem["path"] for problem in problems] == [f"tools[0].permissions.read[{index}]" for index in (0, 1)]
    for problem in problems:
        rule = problem["rule"]
        assert rule["file"] == str(grants.path) and rule["line"] and rule["text"].endswith(", and edited since")
        assert f"by {grants.path}:{rule['line']}: {rule['text']}" in refused.stderr
    assert paddock(*run, "--trust-plan").returncode == 0


def test_a_plan_whose_paths_lead_elsewhere_is_not_the_accepted_one(project: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(_SAYING.format(said="permissions: {read: [link]}"), encoding="utf-8")
    _accept(plan, project)
    run = ["run", str(plan), "hello", "-C", str(project), "--json"]
    assert paddock(*run).returncode == 0
    (tmp_path / "third").mkdir()
    (project / "link").unlink()
    (project / "link").symlink_to("../third")
    refused = paddock(*run)
    assert refused.returncode == 4
    assert [one["path"] for one in _told(refused)["error"]["problems"]] == ["tools[0].permissions.read[0]"]


def test_no_link_made_later_opens_what_git_runs_to_an_accepted_plan(project: Path, tmp_path: Path) -> None:
    """As a module may make one that may write around its place; a link to other files takes no new consent."""
    plan, out = tmp_path / "plan.yaml", project / "out"
    plan.write_text(_SAYING.format(said="permissions: {write: [., out]}"), encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(project)], check=True, timeout=60)
    (project / "other").mkdir()
    out.mkdir()
    _accept(plan, project)
    run = ["run", str(plan), "hello", "-C", str(project), "--json"]
    out.rmdir()
    out.symlink_to("other")
    assert paddock(*run).returncode == 0
    for target in (".git", ".git/hooks"):
        out.unlink()
        out.symlink_to(target)
        refused = paddock(*run)
        assert refused.returncode == 4, target
        (problem,) = _told(refused)["error"]["problems"]
        assert problem["path"] == "tools[0].permissions.write[1]"
        assert "what your own programs run by themselves" in problem["message"]
    _accept(plan, project)
    assert paddock(*run).returncode == 0


@pytest.mark.parametrize("level", ["ns", "bwrap", "landlock", "none"])
def test_a_call_runs_at_the_level_that_was_asked_for_or_says_why_it_cannot(tricky: str, level: str) -> None:
    found = next(one for one in diagnosis()["levels"] if one["level"] == level)
    done = paddock("call", tricky, "tricky", '{"do": "text"}', "--isolation", level, "--json")
    told = _told(done)
    if found["reachable"]:
        assert (done.returncode, told["output"]) == (0, "plain\ntext")
        assert f"isolation: {level}" in done.stderr.splitlines()
        assert all(sentence.split()[0] in done.stderr for sentence in found["missing_guarantees"])
    else:
        assert (done.returncode, told["error"]["type"]) == (1, "IsolationUnavailableError")
        assert f"isolation level `{level}` is unavailable" in done.stderr
        assert f"{level}: {found['step']}: " in done.stderr and (found["fix"] or "") in done.stderr


def test_that_nothing_isolates_is_said_before_the_module_can_say_anything(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "print"}', "--isolation", "none")
    first = done.stderr.splitlines()[0]
    assert first == "WARNING: NO ISOLATION, level none: tool-tricky"


def test_what_a_plan_alone_shows_is_refused_before_its_code_is_found(tmp_path: Path) -> None:
    tool = {"module": "tool-gone", "source": "./nowhere", "permissions": {"secrets": ["UNSET_KEY"]}}
    plan = _plan(tmp_path, tools=[{**tool, "config": {"key": "${UNSET_KEY}"}}])
    for options, said in (
        (["--trust-plan"], "`UNSET_KEY` is not set"),
        (["--grant", "tool-gon=isolated"], "did you mean `tool-gone`?"),
    ):
        done = paddock("run", plan, "hello", *options)
        assert done.returncode == 1 and said in done.stderr and "no code was found" not in done.stderr, done.stderr
    # What needs consent comes first in a plan that was not accepted, and all of it at once.
    assert "no code was found" in paddock("run", plan, "hello").stderr


def test_a_weaker_level_in_a_plan_is_refused_until_somebody_accepts_it(tmp_path: Path, tricky: str) -> None:
    plan = _plan(tmp_path, tools=[{"module": "tool-tricky", "source": tricky, "isolation": "none"}])
    refused = paddock("run", plan, "hello", "--isolation", reachable_level(), "--json")
    told = _told(refused)
    assert (refused.returncode, told["error"]["type"]) == (4, "PolicyRefusedError")
    ((path, fix),) = [(problem["path"], problem["hint"]) for problem in told["error"]["problems"]]
    assert path == "tools[0].isolation" and "accept the plan:" in fix and "`--isolation none`" in fix
    assert f"hint: {path}: {fix}" in refused.stderr
    assert all(not module["level"] for module in told["modules"])
    accepted = paddock("run", plan, "hello", "--trust-plan", "--json")
    told = _told(accepted)
    assert accepted.returncode == 0
    assert {module["module"]: module["level"] for module in told["modules"]} == {
        "loop-basic": reachable_level(),
        "context-simple": reachable_level(),
        "provider-mock": reachable_level(),
        "tool-tricky": "none",
    }
    assert "WARNING: NO ISOLATION, level none: tool-tricky" in accepted.stderr.splitlines()


def test_naming_a_level_accepts_it_for_all_that_name_none(tmp_path: Path) -> None:
    done = paddock("run", _plan(tmp_path), "hello", "--isolation", "none", "--json")
    assert [module["level"] for module in _told(done)["modules"]] == ["none"] * 3
    assert "WARNING: NO ISOLATION, level none: loop-basic, context-simple, provider-mock" in done.stderr.splitlines()
    assert done.stderr.count("NO ISOLATION") == 1


def test_a_level_that_cannot_be_had_ends_a_run_with_the_step_and_the_fix(tmp_path: Path) -> None:
    found = require_unreachable()
    tools = [{"module": "tool-filesystem", "isolation": found["level"], "permissions": {"read": ["."]}}]
    plan = _plan(tmp_path, tools=tools)
    done = paddock("run", plan, "hello", "--trust-plan", "--json")
    told = _told(done)
    assert (done.returncode, told["error"]["type"]) == (1, "IsolationUnavailableError")
    assert told["error"]["failures"][found["level"]] == {
        key: found[key] or None for key in ("step", "errno", "reason", "fix")
    }
    assert done.stderr.startswith(f"error: tools[0].isolation: isolation level `{found['level']}` is unavailable")
    by_option = paddock("run", _plan(tmp_path), "hello", "--isolation", found["level"])
    assert by_option.returncode == 1
    assert by_option.stderr.startswith(f"error: isolation level `{found['level']}` is unavailable")


def test_a_limit_that_the_level_cannot_enforce_is_refused_with_a_fix(tmp_path: Path) -> None:
    call = paddock("call", "tool-filesystem", "read_file", "--limit", "tmp_max=1M", "--isolation", "none", "--json")
    assert (call.returncode, _told(call)["error"]["type"]) == (1, "UnenforcedLimitError")
    assert "--limit tmp_max: cannot be enforced at isolation level `none`" in call.stderr
    assert "hint: --limit tmp_max: run the module at isolation level `ns`, or leave the limit out" in call.stderr
    tools = [{"module": "tool-filesystem", "isolation": "none", "limits": {"open_files_max": 10}}]
    run = paddock("run", _plan(tmp_path, tools=tools), "hello", "--trust-plan")
    assert (run.returncode, run.stdout) == (1, "")
    assert "tools[0].limits.open_files_max: cannot be enforced at isolation level `none`" in run.stderr
    assert "hint: tools[0].limits.open_files_max: " in run.stderr


def test_all_refusals_are_reported_at_once_before_any_start(tmp_path: Path, tricky: str) -> None:
    plan = _plan(
        tmp_path,
        tools=[
            {"module": "tool-filesystem", "permissions": {"read": ["./nowhere"], "run": ["gti"]}},
            {"module": "tool-tricky", "source": tricky, "isolation": "none", "limits": {"open_files_max": 10}},
        ],
        hooks=[{"module": "hooks-logging", "permissions": {"write": ["/etc"]}}],
    )
    done = paddock("run", plan, "hello", "-C", str(tmp_path), "--trust-plan", "--json")
    told = _told(done)
    assert (done.returncode, told["response"]) == (1, None)
    assert {problem["path"] for problem in told["error"]["problems"]} == {
        "tools[0].permissions.read[0]",
        "tools[0].permissions.run[0]",
        "tools[1].limits.open_files_max",
        "hooks[0].permissions.write[0]",
    }
    for problem in told["error"]["problems"]:
        assert problem["hint"] and f"hint: {problem['path']}: {problem['hint']}" in done.stderr
    assert "started" not in done.stderr
    assert all((module["level"], module["exit_reports"]) == ("", []) for module in told["modules"])


# -- on a terminal -------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "outcome"), [("1", "It said: plain"), ("deny", "It said: Denied")])
def test_a_person_is_asked_and_answers_by_number_or_name(
    tmp_path: Path, write_module: WriteModule, tricky: str, key: str, outcome: str
) -> None:
    with Terminal("run", _asking_plan(tmp_path, write_module, tricky), "go") as terminal:
        terminal.type("1\n")  # before there is a question: no answer to it
        terminal.until(r"Run \x1b[2Jthis?")
        terminal.until("without an answer within 60 s it is deny: ")
        terminal.type("7\n")
        terminal.until("type a number from 1 to 2")
        terminal.type(f"{key}\n")
        terminal.until(outcome)
        assert terminal.exit_code() == 0


def test_a_question_without_an_answer_in_time_gets_its_default(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    with Terminal("run", _asking_plan(tmp_path, write_module, tricky, timeout=0.2), "go") as terminal:
        terminal.until("no answer; the default is deny")
        terminal.until("It said: Denied")
        assert terminal.exit_code() == 0


def test_the_second_interruption_ends_a_turn_at_once(tmp_path: Path, tricky: str) -> None:
    tools = [{"module": "tool-tricky", "source": tricky}]
    with Terminal("run", _plan(tmp_path, providers=_calling("tricky", do="hang"), tools=tools), "go") as terminal:
        terminal.until('tricky {"do": "hang"}')
        terminal.type("\x03")
        terminal.until("Ctrl-C again stops at once")
        terminal.type("\x03")
        terminal.until("stopping at once")
        assert terminal.exit_code() == 130


def test_the_first_interruption_withdraws_a_question_and_lets_the_turn_end(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    with Terminal("run", _asking_plan(tmp_path, write_module, tricky), "go") as terminal:
        terminal.until("without an answer within 60 s it is deny: ")
        terminal.type("\x03")
        terminal.until("Ctrl-C again stops at once")
        assert terminal.exit_code() == 130


def test_an_interruption_ends_a_single_call_at_once(tricky: str) -> None:
    with Terminal("call", tricky, "tricky", '{"do": "hang"}') as terminal:
        terminal.until("waiting for tricky")
        terminal.type("\x03")
        assert terminal.exit_code() == 130


def test_an_interruption_while_modules_start_ends_the_run(tmp_path: Path, write_module: WriteModule) -> None:
    code = "import asyncio\nasync def mount(coordinator, config):\n    print('mounting')\n    await asyncio.sleep(3600)"
    tools = [{"module": "tool-slow", "source": write_module("tool-slow", code)}]
    with Terminal("run", _plan(tmp_path, tools=tools), "go") as terminal:
        terminal.until("starting tool-slow")
        terminal.type("\x03")
        assert terminal.exit_code() == 130


def test_text_for_a_terminal_is_escaped_and_for_a_program_is_not(tmp_path: Path) -> None:
    plan, prompt = _plan(tmp_path), "a\x1b[31mb"
    assert paddock("run", plan, prompt).stdout == f"You said: {prompt}\n"
    with Terminal("run", plan, prompt) as terminal:
        terminal.until(r"You said: a\x1b[31mb")
        assert terminal.exit_code() == 0
