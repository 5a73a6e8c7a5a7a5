"""The tools of a server that is a real process: what is mounted, what a call returns, and what the server gets."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_mcp import mount, server

pytestmark = pytest.mark.anyio

_SECONDS = 100  # hit only by a hang
_COMMAND = [sys.executable, str(Path(__file__).with_name("desk_server.py"))]


class Desk:
    """The tools of a server, mounted."""

    def __init__(self) -> None:
        self.coordinator = MockCoordinator()
        self.cleanup: Any = None

    async def mount(self, *arguments: str, **config: Any) -> None:
        given = {"command": _COMMAND, "args": [*arguments], **config}
        self.cleanup = await asyncio.wait_for(mount(self.coordinator, given), _SECONDS)

    @property
    def tools(self) -> dict[str, Any]:
        tools: dict[str, Any] = self.coordinator.get("tools")
        return tools

    async def __call__(self, tool: str, **arguments: Any) -> ToolResult:
        result = await asyncio.wait_for(self.tools[tool].execute(arguments), _SECONDS)
        assert isinstance(result, ToolResult)
        return result


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    found = Desk()
    yield found
    if found.cleanup is not None:
        await found.cleanup()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def test_a_tool_shows_its_definition_and_returns_what_the_server_says(desk: Desk) -> None:
    await desk.mount(prefix="desk", tools=["echo", "wrong"], env={"SAID": "Be brief."}, name="desk")
    assert sorted(desk.tools) == ["desk_echo", "desk_wrong"]
    echo = desk.tools["desk_echo"]
    assert (echo.name, echo.title, echo.description) == ("desk_echo", "Echo", "Says it again.")
    assert (echo.input_schema, echo.annotations) == ({"type": "object"}, {"readOnlyHint": True})
    assert await desk("desk_echo", a=1) == ToolResult(output='{"a": 1}')
    failed = await desk("desk_wrong")
    assert not failed.success and failed.error == {"type": "tool_error", "message": "{}"}
    told = desk.coordinator.get_capability("mcp.desk")
    assert (told.protocol, told.server, told.instructions) == ("2025-11-25", "desk 1", "Be brief.")
    assert await told.ask("prompts/list", {}) == {"prompts": []}
    with pytest.raises(LookupError, match="`tools/call` is not asked"):
        await told.ask("tools/call", {})


async def test_a_tool_that_cannot_be_mounted_is_left_out_by_name(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    mounting = desk.coordinator.mount

    async def refusing(point: str, tool: Any, name: str) -> None:
        if name == "far":
            raise ValueError("`far` is tool-telescope's")
        await mounting(point, tool, name=name)

    desk.coordinator.mount = refusing
    await desk.mount("odd", tools=["echo", "far", "odd", "none"])
    assert list(desk.tools) == ["echo"]
    assert [record.message.partition(" the tool ")[2] for record in caplog.records] == [
        "'odd' is left out: its `inputSchema` is no object",
        "none is left out: the server has no such tool, or it cannot be used",
        "odd is left out: the server has no such tool, or it cannot be used",
        "far is left out: `far` is tool-telescope's; `prefix` gives the tools of this server other names",
    ]


async def test_what_changed_is_mounted_and_what_is_gone_unmounted(desk: Desk) -> None:
    await desk.mount()
    await desk("grow")
    await until(lambda: "shrink" in desk.tools)
    assert "grow" not in desk.tools
    assert desk.tools["echo"].description == "Says it twice."


async def test_a_server_that_ends_is_told_and_started_again_within_bounds(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MAX_STARTS", 2)
    await desk.mount()
    for _ in range(2):
        failed = await desk("end")
        assert failed.error is not None and failed.error["type"] == "server"
        assert failed.error["message"].endswith("ended with exit code 3; its last lines:\n  no more ink")
        assert (await desk("echo")).success
    await desk("end")
    assert "it was started again 2 times within 300 s" in str(await desk("echo"))


_STARTS = {
    "ends": (_COMMAND, r"ended with exit code 1; its last lines:\n  there is no ink"),
    "is not there": (["/nowhere/server"], "/nowhere/server cannot be started: .*No such file"),
}


@pytest.mark.parametrize("case", _STARTS)
async def test_a_server_that_does_not_start_fails_the_mount_in_words(desk: Desk, case: str) -> None:
    command, said = _STARTS[case]
    with pytest.raises(Exception, match=said):
        await desk.mount("broken", command=command)
    assert not desk.tools


async def test_a_server_that_is_silent_is_told_with_its_programs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_START_SECONDS", 0.2)
    said = r"did not answer `initialize` within 0.2 s; its programs: sleep$"
    with pytest.raises(Exception, match=said):
        await desk.mount(command=["sleep", "1000"])


class Person:
    """Chooses the option of that name, and keeps what was asked."""

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.asked: list[Any] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked.append((prompt, options, default))
        return self.choice


@pytest.mark.parametrize(("choice", "action"), [("green", "accept"), ("Decline", "decline"), ("deny", "decline")])
async def test_a_question_with_one_choice_is_an_approval(desk: Desk, choice: str, action: str) -> None:
    person = desk.coordinator.approval_system = Person(choice)
    await desk.mount()
    content = ', "content": {"colour": "green"}' if action == "accept" else ""
    assert (await desk("ask")).output == f'{{"action": "{action}"{content}}}'
    assert person.asked == [("MCP server desk 1: Which?\nOf the roof.", ["red", "green", "Decline"], "deny")]


_OTHERS: dict[str, dict[str, Any]] = {
    "a form of a text": {"requestedSchema": {"properties": {"name": {"type": "string"}}}},
    "a form of two": {"requestedSchema": {"properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}}},
    "a form of too many": {"requestedSchema": {"properties": {"a": {"enum": [*range(33)]}}}},
    "a form of a long choice": {"requestedSchema": {"properties": {"a": {"enum": ["x" * 201]}}}},
    "a form with our own word": {
        "requestedSchema": {"properties": {"a": {"oneOf": [{"const": 1, "title": "Decline"}]}}}
    },
    "a page": {"mode": "url", "url": "https://example.org"},
}


async def test_any_other_question_is_declined_and_that_is_said_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    person = desk.coordinator.approval_system = Person("Yes")
    await desk.mount()
    for question in _OTHERS.values():
        assert (await desk("ask", **question)).output == '{"action": "decline"}'
    assert person.asked == []
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "tool-mcp: a question of the MCP server desk 1 is declined: it is no form of one choice"
    ]


async def test_a_place_that_is_not_to_be_written_is_told_as_one_to_write(desk: Desk) -> None:
    await desk.mount()
    for said, told in (("EROFS: read-only file system, open '/x'", "write"), ("no such thing", None)):
        result = await desk("wrong", text=said)
        assert result.error["type"] == "tool_error" and result.error.get("access") == told


async def test_roots_are_the_granted_folders_and_progress_is_an_event(desk: Desk, tmp_path: Path) -> None:
    granted = {"read": [str(tmp_path), __file__], "write": [str(tmp_path)]}  # of a file, its folder is a root
    desk.coordinator.register_capability("session.granted_paths", granted)
    events: list[Any] = []

    async def hear(event: str, data: Any) -> None:
        events.append(data)

    desk.coordinator.hooks.register("tool:progress", hear)
    await desk.mount()
    roots = json.loads((await desk("roots")).output)["roots"]
    assert {one["uri"] for one in roots} == {tmp_path.as_uri(), Path(__file__).parent.as_uri()}
    await desk("far")
    told = {"tool_name": "far", "progress": 1, "total": None, "message": "half"}
    assert [event | told == event for event in events] == [True]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "`command` is missing"),
        ({"command": "server"}, "`command` must be a list of texts"),
        ({"command": ["x"], "args": [1]}, "`args` must be a list of texts"),
        ({"command": ["x"], "env": {"A": 1}}, "`env` must be a table of texts"),
        ({"command": ["x"], "prefix": None, "name": 1}, "`name` must be a text"),
    ],
)
async def test_a_setting_of_the_wrong_shape_is_refused_by_name(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"tool-mcp: {said}"):
        await mount(MockCoordinator(), config)
