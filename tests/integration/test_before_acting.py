"""Each module that can act outside the session's folder waits for a record before its first call, and acts after it."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from integration.agents import LOOP, TASK
from integration.conftest import OpenSession, WriteModule
from integration.probe import tool_code
from paddock import Session

_WRITER = tool_code(
    "write",
    """
    with open(input["file"], "a") as file:
        file.write("acted\\n")
    return ToolResult(output="done")
    """,
)
_WATCHER = """
    def mount(coordinator, config):
        async def note(event, data):
            with open(config["file"], "a") as file:
                file.write("acted\\n")

        coordinator.hooks.register("tool:pre", note)
        coordinator.hooks.register("orders:done", note)
"""


class _Ledger:
    """Keeps the records of a session, with whether a file was there at the time; refuses them if it is `full`."""

    def __init__(self, file: Path, *, is_full: bool = False) -> None:
        self.kept: list[tuple[str, str, bool]] = []
        self._file = file
        self._is_full = is_full

    async def __call__(self, module: str, called: str) -> None:
        self.kept.append((module, called, self._file.exists()))
        if self._is_full:
            raise OSError("no room for a record")


@pytest.fixture
def opened(tmp_path: Path, open_session: OpenSession, write_module: WriteModule) -> _Opened:
    """Open a session whose tool, or hook, or sub-session's tool, is to write into a file beside the working folder."""
    return _Opened(tmp_path, open_session, write_module)


class _Opened:
    def __init__(self, folder: Path, open_session: OpenSession, write_module: WriteModule) -> None:
        self.file = folder / "beside" / "acts"
        self.file.parent.mkdir()
        self._open_session = open_session
        self._write_module = write_module

    def __call__(self, ledger: _Ledger | None, *places: str, **sections: Any) -> AbstractAsyncContextManager[Session]:
        write, source = {"write": [str(self.file.parent)]}, self._write_module
        tools = [{"module": "tool-write", "source": source("tool-write", _WRITER), "permissions": write}]
        watch = {"module": "hooks-watch", "source": source("hooks-watch", _WATCHER), "permissions": write}
        task = {"module": "tool-task", "source": source("tool-task", TASK), "permissions": {"call": ["spawn"]}}
        return self._open_session(
            orchestrator={"module": "loop-orders", "source": source("loop-orders", LOOP), "permissions": {}},
            context={"module": "context-simple", "permissions": {}},
            tools=[task] if "agent" in places else tools,
            hooks=[{**watch, "config": {"file": str(self.file)}}] if "hook" in places else [],
            agents={"writer": {"description": "writes", "instruction": "write", "tools": tools}},
            before_acting=ledger,
        )

    def prompt(self, *places: str) -> str:
        order = {"tool": "write", "input": {"file": str(self.file)}}
        if "hook" in places:
            order = {"tool": "write", "input": {"file": "acts"}}
        if "agent" in places:
            return json.dumps({"tool": "task", "input": {"agent_name": "writer", "instruction": json.dumps(order)}})
        return json.dumps(order)


_PLACES = {
    "tool": [("tool-write", "write", False)],
    "hook": [("hooks-watch", "hook tool:pre", False), ("tool-write", "write", True)],
    "agent": [("tool-task", "task", False), ("tool-write", "write", False)],
}


@pytest.mark.parametrize("place", _PLACES)
async def test_a_record_is_kept_before_an_act_and_once(place: str, opened: _Opened) -> None:
    ledger = _Ledger(opened.file)
    async with opened(ledger, place) as session:
        for _ in range(2):
            await session.execute(opened.prompt(place))
    assert ledger.kept == _PLACES[place]
    assert opened.file.read_text() == "acted\n" * 2


@pytest.mark.parametrize("place", _PLACES)
async def test_without_a_record_nothing_acts_and_the_turn_ends(place: str, opened: _Opened) -> None:
    ledger = _Ledger(opened.file, is_full=True)
    async with opened(ledger, place) as session:
        for _ in range(2):
            with pytest.raises(OSError, match="no room for a record"):
                await session.execute(opened.prompt(place))
    assert ledger.kept == _PLACES[place][:1]
    assert not opened.file.exists()
