"""What starting Paddock does not load: each start pays for all of it, a command's as well as an application's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# Each is needed by some commands only, or once a file of that kind is read.
_OF_SOME_COMMANDS = (
    "cryptography",
    "filelock",
    "git",
    "h11",
    "httpx",
    "importlib.metadata",  # pydantic reads all distributions' entry points when it builds its first validator
    "prompt_toolkit",
    "tomlkit",
    "urllib.request",
    "yaml",
    "paddock.authoring",
    "paddock.demo",
    "paddock.doctor",
    "paddock.egress.certificate_authority",
    "paddock.selftest",
)
_NOT_FOR_HELP = (*_OF_SOME_COMMANDS, "anyio", "asyncio", "pydantic", "rich", "paddock.errors", "paddock_sources")

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
    assert not {"click", "rich", *_OF_SOME_COMMANDS}.intersection(for_session)
    assert "paddock.session.tool_call" in for_call and not set(_OF_SOME_COMMANDS).intersection(for_call)
    assert models > 10 and not built and not unbuildable


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


def test_lists_show_the_first_sentence_of_each_help() -> None:
    *_, briefs = _printed(
        "import json",
        "from paddock.cli.command_group import LazyCommand",
        "from paddock.cli.commands import paddock",
        "from paddock.cli.modules import module",
        "lazy = [one for group in (paddock, module) for one in group.commands.values()]",
        "lists = [(one.get_short_help_str(1000), one.load().get_short_help_str(1000)) for one in lazy]",
        "print(json.dumps([[(one.name, one.load().name) for one in lazy], lists]))",
    )
    names, lists = briefs
    assert len(names) > 20
    assert [pair for pair in [*names, *lists] if pair[0] != pair[1]] == []


def _printed(*statements: str) -> list[Any]:
    program = [sys.executable, "-c", "\n".join(statements)]
    answer = subprocess.run(program, capture_output=True, text=True, check=True, timeout=200)
    return [json.loads(line) for line in answer.stdout.splitlines()]
