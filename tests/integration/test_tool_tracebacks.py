"""A tool that raises: the answer names the line of the module's code, and the traceback is where an author looks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.command_line import paddock
from integration.conftest import WriteModule

_RAISER = """
    import json

    def look_up(text):
        return json.loads(text)["key"]

    class Strange(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class Raiser:
        name = "raise"
        description = "raises"
        input_schema = {"type": "object"}

        async def execute(self, input):
            if input.get("strange"):
                raise Strange()
            return look_up(input["text"])

    async def mount(coordinator, config):
        await coordinator.mount("tools", Raiser())
"""
_PLACE = "(amplifier_module_tool_raiser/__init__.py:5, in look_up)"
_LINE = 'return json.loads(text)["key"]'


@pytest.fixture
def raiser(write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    source = write_module("tool-raiser", _RAISER)
    monkeypatch.chdir(tmp_path)
    return source


def test_a_failed_call_names_the_line_and_keeps_its_traceback(raiser: str) -> None:
    given = json.dumps({"text": "no json"})
    done = paddock("call", raiser, "raise", given, "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1 and error["type"] == "JSONDecodeError"
    assert error["message"].endswith(_PLACE) and _PLACE in done.stderr
    assert error["traceback"].startswith("Traceback (most recent call last):\n")
    assert _LINE in error["traceback"] and "paddock_sdk" not in error["traceback"]
    assert "Traceback" not in done.stderr
    done = paddock("call", raiser, "raise", given, "-v")
    assert f"tool-raiser |     {_LINE}" in done.stderr
    done = paddock("call", raiser, "raise", '{"strange": 1}', "--json")
    assert json.loads(done.stdout)["error"]["message"].endswith("__init__.py:18, in execute)")


@pytest.mark.exhaustive
def test_a_run_shows_the_traceback_of_a_tool_with_v_alone(raiser: str, tmp_path: Path) -> None:
    use = json.dumps({"name": "raise", "arguments": {"text": "no json"}})
    (tmp_path / "plan.yaml").write_text(f"""
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock, config: {{responses: [{{tool_calls: [{use}]}}, "{{last_tool_result}}"]}}}}]
tools: [{{module: tool-raiser, source: {json.dumps(raiser)}}}]
""")
    done = paddock("run", "plan.yaml", "go", "--trust-plan")
    assert _PLACE in done.stdout and "Traceback" not in done.stdout + done.stderr, done.stderr
    (kept,) = json.loads(paddock("run", "plan.yaml", "go", "--trust-plan", "--json").stdout)["tracebacks"]
    assert kept["module"] == "tool-raiser"
    assert kept["traceback"].startswith("Traceback (most recent call last):\n") and _LINE in kept["traceback"]
    done = paddock("run", "plan.yaml", "go", "--trust-plan", "-v")
    assert f"tool-raiser |     {_LINE}" in done.stderr
