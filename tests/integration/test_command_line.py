"""The command line as scripts and people see it: exit codes, what is on stdout, what on stderr, and Ctrl-C."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import Terminal, nothing_outlives_its_command, paddock
from integration.conftest import WriteModule

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
                case "exit":
                    os._exit(7)
                case "raise":
                    raise LookupError("no such \\x1b[31mthing")
                case "cancel":
                    raise asyncio.CancelledError("enough \\x1b[31mof this")
                case "odd keys":
                    return ToolResult(output={"\\udc80": "\\udc80", frozenset({"y", "x"}): 1, (1, b"\\xff"): {None: 2}})
                case "fail":
                    return ToolResult(success=False, output="half of it", error={"type": "full", "message": "no room"})
                case "wrong type":
                    return "just text"
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


@pytest.fixture(autouse=True)
def _nothing_outlives_its_command(
    nothing_is_left_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    with nothing_outlives_its_command(tmp_path / "scratch", monkeypatch):
        yield


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
        ("segfault", 5, "ModuleDiedError", "SIGSEGV"),
        ("exit", 5, "ModuleDiedError", "exited with code 7"),
        ("raise", 1, "LookupError", "no such"),
        ("fail", 1, "full", "no room"),
        ("wrong type", 1, "TypeError", "str"),
        ("not sendable", 1, None, "cannot be sent"),
    ],
)
def test_a_call_that_fails_says_so_by_its_exit_code_and_result(
    tricky: str, do: str, code: int, kind: str | None, said: str
) -> None:
    done = paddock("call", tricky, "tricky", json.dumps({"do": do}), "--json")
    told = _told(done)
    assert done.returncode == code
    assert set(told) == {"success", "output", "error"}
    assert told["success"] is False
    assert kind in (None, told["error"]["type"])
    assert said in told["error"]["message"]
    assert said in done.stderr and "\x1b" not in done.stderr


def test_a_module_that_died_in_a_call_leaves_its_report(tricky: str) -> None:
    report = _told(paddock("call", tricky, "tricky", '{"do": "segfault"}', "--json"))["error"]["report"]
    assert (report["reason"], report["signal"], report["call_in_flight"]) == ("signalled", "SIGSEGV", "execute")


def test_a_call_that_takes_longer_than_its_limit_is_ended(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "hang"}', "--limit", "runtime_max=300ms", "--json")
    assert done.returncode == 5
    assert _told(done)["error"]["report"]["limit"]["name"] == "runtime_max"


def test_what_a_tool_returns_is_on_stdout(tricky: str, tmp_path: Path) -> None:
    done = paddock("call", tricky, "tricky", '{"a": [1, "ü"]}', "-C", str(tmp_path), "--json")
    assert done.returncode == 0
    assert _told(done) == {
        "success": True,
        "output": {"input": {"a": [1, "ü"]}, "folder": str(tmp_path)},
        "error": None,
    }
    assert "isolation: process only" in done.stderr


def test_without_json_a_text_is_printed_as_it_is(tricky: str) -> None:
    assert paddock("call", tricky, "tricky", '{"do": "text"}').stdout == "plain\ntext\n"


def test_a_result_that_json_cannot_express_is_json_all_the_same(tricky: str) -> None:
    output = _told(paddock("call", tricky, "tricky", '{"do": "not json"}', "--json"))["output"]
    assert output["number"] is None and output["set"] == [1] and isinstance(output["bytes"], str)


def test_a_tool_that_cancels_itself_is_one_that_failed(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "cancel"}', "--json")
    told = _told(done)
    assert done.returncode not in (0, 130)
    assert told.keys() == {"success", "output", "error"}
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
    assert relative.returncode == 0, relative.stderr
    for source in ("tool-filesystem", "builtin:tool-filesystem"):
        done = paddock("call", source, "read_file", '{"file_path": "file"}', "--json", cwd=tmp_path)
        assert "content" in _told(done)["output"]["content"]


def test_what_a_module_prints_is_shown_escaped_under_its_name(tricky: str) -> None:
    done = paddock("call", tricky, "tricky", '{"do": "print"}')
    assert r"tool-tricky | out \x1b[2Jloud" in done.stderr
    assert "tool-tricky | err" in done.stderr


def test_a_module_that_is_no_tool_is_told_to_be_none() -> None:
    done = paddock("call", "loop-basic", "x", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["error"]["type"] == "ModuleLoadError"
    assert "by its orchestrator module, not by a tool" in told["error"]["message"]
    assert (told["error"]["report"]["reason"], told["error"]["report"]["signal"]) == ("start", None)


@pytest.mark.parametrize(
    ("source", "tool", "options", "kind", "said"),
    [
        ("tool-filesistem", "x", [], "ModuleMissingError", "did you mean `tool-filesystem`?"),
        ("./nowhere", "x", [], "ModuleMissingError", "no such file"),
        ("tool-filesystem", "read_fil", [], "ToolMissingError", "did you mean `read_file`?"),
        ("tool-filesystem", "read_file", ["--limit", "memory_max=1M"], "LimitNotEnforcedError", "process only"),
        ("tool-filesystem", "read_file", ["--config", '{"k": "${NAME}"}'], "PlanError", "config.k"),
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
        ["call", "tool-filesystem", "read_file", "--isolation", "ns"],
        ["run", "plan.yaml", "prompt", "--trust-plan"],
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


# -- run -----------------------------------------------------------------------------------


def test_a_turn_answers_on_stdout_and_says_how_its_modules_are_shut_in(tmp_path: Path) -> None:
    done = paddock("run", _plan(tmp_path), "hello", "-C", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert "3 modules started, isolation: process only" in done.stderr


def test_the_prompt_may_come_from_stdin(tmp_path: Path) -> None:
    assert "You said: from there" in paddock("run", _plan(tmp_path), stdin="from there\n").stdout


def test_a_turn_for_scripts_is_one_object(tmp_path: Path) -> None:
    told = _told(paddock("run", _plan(tmp_path), "hello", "--json"))
    assert set(told) == {"session_id", "response", "modules", "error"}
    assert (told["response"], told["error"]) == ("You said: hello", None)
    assert told["session_id"]
    assert [set(module) for module in told["modules"]] == [
        {"module", "kind", "level", "restarts", "denials", "exit_reports"}
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
        "tools[0].limits": "did you mean `memory_max`?",
        "tools[1]": "did you mean `module`?",
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
        (_LOOP.format(body="import os; os.kill(os.getpid(), 11)"), 5, "ModuleDiedError", "SIGSEGV"),
        (_LOOP.format(body="raise LookupError('lost')"), 1, "TurnError", "LookupError: lost"),
        (_LOOP.format(body="return {'a': 1}"), 1, "AnswerTypeError", "`dict`"),
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
    assert "isolation: process only" in done.stderr


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


def test_what_a_plan_asks_for_and_nothing_enforces_is_said(tmp_path: Path) -> None:
    tools = [
        {
            "module": "tool-filesystem",
            "permissions": {"net": ["example.com"], "env": ["LANG"]},
            "limits": {"memory_max": "64M", "runtime_max": "5s"},
        }
    ]
    done = paddock("run", _plan(tmp_path, tools=tools), "hello")
    (line,) = [line for line in done.stderr.splitlines() if "not enforced" in line]
    assert line.startswith("warning: tools[0] `tool-filesystem`")
    assert line.endswith("isolation: process only: limits.memory_max, permissions.net")


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
    assert all("isolation: process only" in " ".join(line) for line in listed)


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
    assert rf"the answer is {default}: Run \x1b[2Jthis?" in done.stderr


def test_the_message_of_a_hook_is_shown_with_level_and_source(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    done = paddock("run", _asking_plan(tmp_path, write_module, tricky, default="allow"), "go")
    (line,) = [line for line in done.stderr.splitlines() if "owned" in line]
    assert line.startswith("warning: ") and r"done \x1b]0;owned\x07" in line


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


def test_a_question_that_nobody_answers_in_time_gets_its_default(
    tmp_path: Path, write_module: WriteModule, tricky: str
) -> None:
    with Terminal("run", _asking_plan(tmp_path, write_module, tricky, timeout=0.2), "go") as terminal:
        terminal.until("no answer; the default is deny")
        terminal.until("It said: Denied")
        assert terminal.exit_code() == 0


def test_the_second_interruption_ends_a_turn_at_once(tmp_path: Path, tricky: str) -> None:
    tools = [{"module": "tool-tricky", "source": tricky}]
    with Terminal("run", _plan(tmp_path, providers=_calling("tricky", do="hang"), tools=tools), "go") as terminal:
        terminal.until("waiting for tricky")
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
