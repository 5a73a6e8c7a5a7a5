"""`paddock run` as scripts see it: its answer, its exit codes, what it shows of modules, grants, limits and levels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.command_line import paddock, reachable_level, require_unreachable
from integration.conftest import WriteModule
from integration.tricky_tool import LOOK_FIRST, json_output, plan_of
from modules import shipped
from support.examples import repeating
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Script
from vendors.server import VendorServer

pytestmark = pytest.mark.usefixtures("commands_end")


_DYING_LOOP = """
    import os

    class Loop:
        def __init__(self, folder):
            self.folder = folder

        async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
            os.makedirs(self.folder + '/.git/hooks')
            os.kill(os.getpid(), 11)

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Loop(config["folder"]))
"""


_CANCELLING = """
    import asyncio

    class Loop:
        async def execute(self, prompt, context, providers, tools, hooks, **rest):
            raise asyncio.CancelledError("enough \\x1b[31mof this")

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Loop())
"""


@pytest.mark.exhaustive("it dies at once")
@pytest.mark.parametrize(
    ("code", "exit_code", "kind", "said"),
    [
        # One that raises, and one whose answer is no text, are in the frozen `a_session`.
        (_DYING_LOOP, 5, "ModuleDiedError", "SIGSEGV"),
        (_CANCELLING, 1, "TurnError", "was cancelled"),
        ("async def mount(coordinator, config): pass", 1, "ModuleLoadError", "mounted nothing"),
        ("import os; os._exit(3)", 5, "ModuleLoadError", "exited with code 3"),
        *repeating(("raise ValueError('no')", 1, "ModuleLoadError", "ValueError: no")),
    ],
    ids=["it dies", "it cancels itself", "it is none", "it dies at once", "it cannot be loaded"],
)
def test_a_turn_that_fails_ends_with_the_code_of_the_cause(
    tmp_path: Path, write_module: WriteModule, folder: Path, code: str, exit_code: int, kind: str, said: str
) -> None:
    loop = {
        "module": "loop-own",
        "source": write_module("loop-own", code),
        "permissions": {"write": [str(folder)]},
        "config": {"folder": str(folder)},
    }
    plan = plan_of(tmp_path, session={"orchestrator": loop, "context": "context-simple"})
    done = paddock("run", plan, "x", "--trust-plan", "--json")
    reported = json_output(done)
    assert (done.returncode, reported["response"], reported["error"]["type"]) == (exit_code, None, kind)
    assert said in reported["error"]["message"] and said in done.stderr and "\x1b" not in done.stderr
    assert f"isolation: {reachable_level()}" in done.stderr
    if kind == "ModuleDiedError":
        assert f"warning: {folder}/.git/hooks appeared during the run; {LOOK_FIRST}" in done.stderr.splitlines()


@pytest.mark.exhaustive
def test_modules_and_their_grants_are_listed_when_more_is_asked_for(tmp_path: Path, folder: Path) -> None:
    tools = [
        {"module": "tool-filesystem", "permissions": {"read": [str(folder)], "run": ["sh"], "env": ["A=hidden"]}},
    ]
    run = ["run", plan_of(tmp_path, tools=tools), "hello", "--trust-plan"]
    done = paddock(*run, "-v", environ={"COLUMNS": "300"})
    assert f"4 modules started, isolation: {reachable_level()}" in done.stderr.splitlines()
    lines = [line.split(maxsplit=1) for line in done.stderr.splitlines()]
    assert ["tool-filesystem", f"read {folder}"] in lines
    assert ["tool-filesystem", "env A"] in lines
    assert any(line[0] == "tool-filesystem" and line[1].startswith("run ") for line in lines if len(line) == 2)
    assert ["loop-basic", "nothing is granted"] in lines
    assert "hidden" not in done.stderr
    sent = {line[0]: line[1] for line in lines if len(line) == 2}  # of the first request, in tokens
    assert sent["instruction"] == "0 tokens" and "read_file" in sent["tools"]
    assert sent["conversation"].endswith("tokens in 1 message") and sent["user"].endswith("tokens: hello")
    assert "of the model's window of 128,000 (" in sent["together"]
    assert "may not call" not in done.stderr
    # A level that is named is accepted for all modules that name none.
    done = paddock(*run, "--isolation", "none", "--json")
    names = ["loop-basic", "context-simple", "provider-mock", "tool-filesystem"]
    modules = json_output(done)["modules"]
    assert [(module["module"], module["level"], module["exit_reports"]) for module in modules] == [
        (name, "none", []) for name in names
    ]
    assert f"WARNING: NO ISOLATION, level none: {', '.join(names)}" in done.stderr.splitlines()
    assert done.stderr.count("NO ISOLATION") == 1
    assert f"read {folder}" not in done.stderr


def test_a_level_that_cannot_be_had_ends_a_run_with_the_step_and_the_fix(tmp_path: Path) -> None:
    found = require_unreachable()
    tools = [{"module": "tool-filesystem", "isolation": found["level"], "permissions": {"read": ["."]}}]
    plan = plan_of(tmp_path, tools=tools)
    done = paddock("run", plan, "hello", "--trust-plan", "--json")
    reported = json_output(done)
    assert (done.returncode, reported["error"]["type"]) == (1, "IsolationUnavailableError")
    assert reported["error"]["failures"][found["level"]] == {
        key: found[key] or None for key in ("step", "errno", "reason", "fix")
    }
    assert done.stderr.startswith(f"error: tools[0].isolation: isolation level `{found['level']}` is unavailable")
    by_option = paddock("run", plan_of(tmp_path), "hello", "--isolation", found["level"])
    assert by_option.returncode == 1
    assert by_option.stderr.startswith(f"error: isolation level `{found['level']}` is unavailable")


def test_a_limit_that_the_level_cannot_enforce_is_refused_with_a_fix() -> None:
    call = paddock("call", "tool-filesystem", "read_file", "--limit", "tmp_max=1M", "--isolation", "none", "--json")
    assert (call.returncode, json_output(call)["error"]["type"]) == (1, "UnenforcedLimitError")
    assert "--limit tmp_max: cannot be enforced at isolation level `none`" in call.stderr
    assert "hint: --limit tmp_max: run the module at isolation level `ns`, or leave the limit out" in call.stderr


def test_all_refusals_are_reported_at_once_before_any_start(tmp_path: Path, tricky: str) -> None:
    plan = plan_of(
        tmp_path,
        tools=[
            {"module": "tool-filesystem", "permissions": {"read": ["./nowhere"], "run": ["gti"]}},
            {"module": "tool-tricky", "source": tricky, "isolation": "none", "limits": {"open_files_max": 10}},
        ],
        hooks=[{"module": "hooks-logging", "permissions": {"write": ["/etc"]}}],
    )
    done = paddock("run", plan, "hello", "-C", str(tmp_path), "--trust-plan", "--json")
    reported = json_output(done)
    assert (done.returncode, reported["response"]) == (1, None)
    assert {problem["path"] for problem in reported["error"]["problems"]} == {
        "tools[0].permissions.read[0]",
        "tools[0].permissions.run[0]",
        "tools[1].limits.open_files_max",
        "hooks[0].permissions.write[0]",
    }
    for problem in reported["error"]["problems"]:
        assert problem["hint"] and f"hint: {problem['path']}: {problem['hint']}" in done.stderr
    assert "started" not in done.stderr
    assert all((module["level"], module["exit_reports"]) == ("", []) for module in reported["modules"])


@pytest.mark.exhaustive
def test_a_prompt_of_odd_bytes_is_sent_and_a_cut_answer_is_told(tmp_path: Path) -> None:
    with VendorServer(Script([{"text": "so", "finish": "length"}]), OpenAIDialect()) as server:
        provider = {
            "module": "provider-openai",
            "source": str(shipped.beside_its_packages("provider-openai", tmp_path)),
            "config": {"base_url": server.url, "default_model": "small", "max_continuations": 0},
            "permissions": {"net": [f"127.0.0.1:{server.port}"]},
        }
        plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "providers": [provider]}
        (tmp_path / "plan.yaml").write_text(json.dumps(plan), encoding="utf-8")
        done = paddock("run", "--trust-plan", "plan.yaml", "caf\udce9", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "so\n"), done.stderr
        assert "warning: the answer was cut off" in done.stderr
        assert server.answers[-1].body["messages"][-1]["content"] == "caf\ufffd"
