"""What a session makes of a tool's own schema: a tool that no provider takes is left out, and 1.0 is a whole number."""

from __future__ import annotations

from typing import Any

import pytest

from integration.command_line import accepting, paddock
from integration.conftest import OpenSession, WriteModule
from integration.probe import entry_of, probed
from integration.tricky_tool import json_output, plan_of

_TOOLS = """
    from amplifier_core import ToolResult

    class Tool:
        description = "says what it got"

        def __init__(self, name, schema):
            self.name = name
            self.input_schema = schema

        async def execute(self, input):
            return ToolResult(output=repr(input))

    async def mount(coordinator, config):
        good = {{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}}
        await coordinator.mount("tools", Tool("good", good))
        await coordinator.mount("tools", Tool("bad", {schema}))
        assert coordinator.get("tools", "good") is not None
"""


@pytest.mark.exhaustive("list", "nan")
@pytest.mark.difference("a tool whose `input_schema` is no object, or no JSON, is left out, and a denial says so")
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("'none'", "its `input_schema` is text, and has to be an object: a JSON schema"),
        ("None", "its `input_schema` is nothing, and has to be an object"),
        ("[]", "its `input_schema` is a list, and has to be an object"),
        ("{'minimum': float('nan')}", "its `input_schema` is no JSON"),
    ],
    ids=["text", "none", "list", "nan"],
)
async def test_a_tool_with_no_usable_schema_is_left_out_by_name(
    open_session: OpenSession, schema: str, said: str
) -> None:
    tool = entry_of("tool-two", _TOOLS.format(schema=schema))
    async with open_session(tools=[tool]) as session:
        assert [*session.coordinator.get("tools")] == ["good"]
        (status,) = (one for one in session.modules if one.module == "tool-two")
        (denial,) = status.denials
        assert (denial["operation"], denial["target"]) == ("mount", "tools:bad")
        assert said in str(denial["reason"])
        assert await probed(session, "good", n=2) == "{'n': 2}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("schema", ["{}", "{'type': 'object', 'properties': {'text': {'type': 'string'}}}"])
async def test_an_object_of_usual_size_is_a_usable_schema(open_session: OpenSession, schema: str) -> None:
    tool = entry_of("tool-two", _TOOLS.format(schema=schema))
    async with open_session(tools=[tool]) as session:
        assert {*session.coordinator.get("tools")} == {"good", "bad"}


@pytest.mark.usefixtures("commands_end")
def test_a_person_is_told_which_tool_was_left_out(tmp_path: Any, write_module: WriteModule) -> None:
    source = write_module("tool-two", _TOOLS.format(schema="'none'"))
    plan = plan_of(tmp_path, tools=[{"module": "tool-two", "source": source}])
    done = paddock("run", plan, "hello", "--trust-plan")
    assert done.returncode == 0, done.stderr
    assert "may not mount `tools:bad`: its `input_schema` is text, and has to be an object" in done.stderr
    called = paddock(*accepting(["call", source, "bad", "{}", "--json"]))
    assert called.returncode != 0 and "ToolMissingError" in called.stdout


@pytest.mark.exhaustive("-0.0", "1.5")
@pytest.mark.difference("a tool gets 1 for `1.0` where its `input_schema` has an integer at the top")
@pytest.mark.parametrize(
    ("given", "got"),
    [('{"n": 1.0}', "{'n': 1}"), ('{"n": 1.5, "x": 1.0}', "{'n': 1.5, 'x': 1.0}"), ('{"n": -0.0}', "{'n': 0}")],
)
@pytest.mark.usefixtures("commands_end")
def test_a_whole_number_is_one_however_it_is_written(write_module: WriteModule, given: str, got: str) -> None:
    source = write_module("tool-two", _TOOLS.format(schema="{}"))
    assert json_output(paddock("call", source, "good", given, "--json"))["output"] == got


@pytest.mark.usefixtures("commands_end")
def test_a_tool_of_ours_takes_a_whole_number_with_a_point(tmp_path: Any) -> None:
    (tmp_path / "a").write_text("first\nsecond\n")
    call = ("call", "builtin:tool-filesystem", "read_file", '{"file_path": "a", "offset": 2.0}', "--allow-read=.")
    done = paddock(*call, cwd=tmp_path)
    assert done.returncode == 0 and "second" in done.stdout and "first" not in done.stdout, (done.stdout, done.stderr)
