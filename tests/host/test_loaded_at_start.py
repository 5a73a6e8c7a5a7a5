"""What starting Paddock does not load: each start pays for all of it, a command's as well as an application's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from paddock.workers.runtime import WorkerRuntime

# Each is needed by some commands only, or once a file of that kind is read.
_OF_SOME_COMMANDS = (
    "cryptography",
    "filelock",
    "git",
    "h11",
    "httpx",
    "importlib.metadata",  # pydantic reads all distributions' entry points when it builds its first validator
    "prompt_toolkit",
    "rich",
    "tomlkit",
    "urllib.request",
    "yaml",
    "paddock.authoring",
    "paddock.demo",
    "paddock.doctor",
    "paddock.egress.certificate_authority",
    "paddock.selftest",
)
# Each is needed once a refusal is explained, a plan reviewed, code fetched, the cache looked after, a policy or the
# file of accepted plans read, a tool named without its source, or the body of a conversation opened.
_OF_SOME_CALLS = (
    "paddock.authorization.review",
    "paddock.authorization.suggestions.advice",
    "paddock.authorization.suggestions.needs",
    "paddock.authorization.suggestions.proposal",
    "paddock.isolation.commands.command_worker",
    "paddock.isolation.denials.explain",
    "paddock.module_sources.sourced_modules",
    "paddock.policy.caps",
    "paddock.policy.files.accepted_plans_text",
    "paddock.policy.files.policy_file",
    "paddock.policy.grant_caps",
    "paddock_sandbox.lockdown",
    "paddock_sdk.contract.message_models",
    "paddock_sources.cache.upkeep",
)
# Commands by what they load, each row's also by those below it; and of that what no command in a row above loads.
_ROWS = (
    (("help",), ()),
    (
        ("cache", "policy", "module new"),
        ("pydantic", "authoring", "errors", "lookalikes", "plan", "policy", "text", "sources"),
    ),
    (("ps", "top", "logs", "end"), ("control", "state_folder")),
    (
        ("list", "lock", "sync", "update", "verify"),
        ("anyio", "asyncio", "authorization", "module_sources", "time_limit"),
    ),
    (("audit",), ("audit", "audit_reading", "token_bucket")),
    (("chat",), ()),
    (("remove", "add"), ("yaml",)),
    (("doctor",), ("msgpack", "doctor", "isolation", "workers")),
    (
        ("call", "run", "why", "module validate", "module test", "module shell"),
        ("egress", "encodings", "rpc", "session"),
    ),
    (("mcp accept", "mcp run", "mcp serve", "mcp protect"), ("mcp_server",)),
    (("sessions",), ()),
    (("batch",), ("batch", "ray")),
    (("report",), ("report",)),
    (("demo", "selftest"), ("demo", "selftest")),
    (("init",), ("email", "h11", "importlib.metadata")),
)
_LIBRARIES = (
    "anyio asyncio cryptography email filelock git h11 httpx importlib.metadata msgpack platformdirs prompt_toolkit "
    "pydantic rich tomlkit urllib.request yaml"
).split()
_NOT_FOR_HELP = (*_OF_SOME_COMMANDS, "anyio", "asyncio", "pydantic", "paddock.errors", "paddock_sources")

_LOADED = "import json, sys; print(json.dumps([*sys.modules]))"
_BUILT = """
import pydantic

def below(model):
    for one in model.__subclasses__():
        yield one
        yield from below(one)

models = [one for one in below(pydantic.BaseModel) if one.__module__.startswith("paddock")]
print(json.dumps([len(models), [str(one) for one in models if one.__pydantic_complete__]]))
for one in models:
    one.model_rebuild(_types_namespace={})
print(json.dumps([str(one) for one in models if not one.__pydantic_complete__]))
"""


def test_an_application_and_a_call_load_only_what_they_use() -> None:
    for_session, for_call, (models, built), unbuildable = _printed(
        "from paddock import Session", _LOADED, "import paddock.cli.call_command", _LOADED, _BUILT
    )
    assert "paddock.session.session" in for_session
    assert not {"click", *_OF_SOME_COMMANDS}.intersection(for_session)
    assert "paddock.session.tool_call" in for_call and not {*_OF_SOME_COMMANDS, *_OF_SOME_CALLS}.intersection(for_call)
    assert models > 10 and not built and not unbuildable


def test_the_version_loads_not_even_what_reads_arguments() -> None:
    program = (
        "import json, sys; from paddock.cli import main\ntry: main(['-V'])\nfinally: print(json.dumps([*sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=200)
    version, loaded = done.stdout.splitlines()
    assert version.startswith("paddock ") and not {"click", "inspect", "pydantic"}.intersection(json.loads(loaded))


def test_list_of_commands_loads_nothing_a_command_works_with() -> None:
    *_, loaded = _printed(
        "import json, sys",
        "from paddock.cli.commands import paddock",
        "print(json.dumps(paddock.get_help(paddock.make_context('paddock', ['call']))))",
        _LOADED,
    )
    assert "paddock.cli.commands" in loaded and not set(_NOT_FOR_HELP).intersection(loaded)


def test_options_of_a_chat_load_nothing_it_works_with() -> None:
    *_, loaded = _printed("import paddock.cli.chat.chat_command", _LOADED)
    assert "paddock.cli.options" in loaded and not {*_NOT_FOR_HELP}.difference(["asyncio"]).intersection(loaded)


def test_each_command_loads_only_the_libraries_of_its_kind_and_is_listed() -> None:
    *loaded, names, (listed, briefs, inside) = _printed(
        "from paddock.cli.commands import paddock",
        "from paddock.cli.command_group import LazyCommand",
        "def load(name):",
        "    command = paddock",
        "    for part in name.split():",
        "        command = command.commands[part]",
        "        command = command.load() if isinstance(command, LazyCommand) else command",
        *(f"[load(name) for name in {row!r}]\n{_LOADED}" for row, _ in _ROWS),
        "import json",
        "print(json.dumps([*paddock.commands]))",
        "from paddock.cli.mcp import mcp",
        "from paddock.cli.modules import module",
        "lazy = [one for group in (paddock, mcp, module) for one in group.commands.values()]",
        "briefs = [(one.get_short_help_str(1000), one.load().get_short_help_str(1000)) for one in lazy]",
        "loaded = [(one, one.load()) for one in lazy]",
        "inside = [(sorted(one.inside), sorted(getattr(its, 'commands', []))) for one, its in loaded]",
        "print(json.dumps([[(one.name, its.name) for one, its in loaded], briefs, inside]))",
    )
    assert {*names} == {name.partition(" ")[0] for row, _ in _ROWS for name in row}
    known: set[str] = set()
    for (row, of_it), modules in zip(_ROWS, loaded, strict=True):
        parts = {name.split(".")[1] for name in modules if name.startswith("paddock.")} - {"cli"}
        found = (
            parts | {*_LIBRARIES}.intersection(modules) | {"sources" for name in modules if name == "paddock_sources"}
        )
        assert found - known == {*of_it}, row
        known |= found
    # Lists have the first sentence of each help, and the names in each group, without loading what it is of.
    assert len(listed) > 20 and any(names for names, _ in inside)
    assert [pair for pair in [*listed, *briefs, *inside] if pair[0] != pair[1]] == []


def test_a_template_of_commands_loads_no_loop_and_no_contract() -> None:
    of_commands, of_modules = (
        _printed(
            "import importlib, paddock_sdk.worker.fork_server as server",
            f"[importlib.import_module(name) for name in server._expanded({names!r})]",
            _LOADED,
        )[0]
        for names in (
            WorkerRuntime.locate(for_commands=True).preload,
            [name for name in WorkerRuntime.locate().preload if name != "amplifier_core"],  # found by templates only
        )
    )
    assert "paddock_sdk.worker.commands" in of_commands
    unneeded = {"asyncio", "logging", "pydantic", "ssl", "paddock_sdk.contract", "paddock_sdk.worker.driver"}
    assert not unneeded.intersection(of_commands) and unneeded.issubset(of_modules)
    assert "importlib.metadata" not in of_modules  # pydantic would look for plugins with it


def test_a_command_runs_no_plugin_of_pydantic(tmp_path: Path) -> None:
    (tmp_path / "stranger.py").write_text("import sys\nsys.stderr.write('a stranger ran')\nplugin = None\n")
    (tmp_path / "stranger-1.dist-info").mkdir()
    (tmp_path / "stranger-1.dist-info" / "METADATA").write_text("Name: stranger\nVersion: 1\n")
    (tmp_path / "stranger-1.dist-info" / "entry_points.txt").write_text("[pydantic]\nstranger = stranger:plugin\n")
    policy = tmp_path / "policy.toml"
    policy.write_text('minimum_isolation = "ns"\n')
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    model = "import pydantic; type('Model', (pydantic.BaseModel,), {})()"
    command = f"from paddock.cli import main; main(['policy', 'check', {str(policy)!r}])"
    outside, inside = (
        subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=200)
        for program in (model, command)
    )
    assert "a stranger ran" in outside.stderr  # or else the command proves nothing
    assert inside.returncode == 0 and "a stranger ran" not in inside.stderr


def _printed(*statements: str) -> list[Any]:
    program = [sys.executable, "-c", "\n".join(statements)]
    answer = subprocess.run(program, capture_output=True, text=True, check=True, timeout=200)
    return [json.loads(line) for line in answer.stdout.splitlines()]
