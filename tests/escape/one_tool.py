"""Sessions at one level of isolation over tools that a test writes down in full."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from escape.reachable import skip_or_fail
from paddock import Session
from paddock.errors import IsolationUnavailableError
from paddock_sdk.contract.models import ToolResult

_FRAME = """
from amplifier_core.models import ToolResult

class Tool:
    name = "{name}"
    description = "does what the test says"

    async def execute(self, input):
        return ToolResult(output=await act(input))

async def mount(coordinator, config):
    await coordinator.mount("tools", Tool())
"""


def folder_of(folder: Path, name: str, code: str) -> str:
    """Write a module whose tool `name` does what `act` in `code` does, and return its folder as a plan's source."""
    package = folder / "modules" / f"amplifier-module-tool-{name}" / f"amplifier_module_tool_{name}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(code) + _FRAME.format(name=name), encoding="utf-8")
    return str(package.parent)


@asynccontextmanager
async def open_session(level: str, working_dir: Path, tools: Sequence[dict[str, Any]]) -> AsyncIterator[Session]:
    """Open a session of these tools and nothing else, all of it at one level; skip where the level is not to be had."""
    isolation = {"isolation": level}
    plan = {
        "session": {
            "orchestrator": {"module": "loop-basic", **isolation},
            "context": {"module": "context-simple", **isolation},
        },
        "tools": [{**tool, **isolation} for tool in tools],
    }
    try:
        async with Session(plan, working_dir=working_dir, trust_plan=True) as session:
            yield session
    except IsolationUnavailableError as error:
        skip_or_fail(level, error)


async def call(session: Session, tool: str, **arguments: Any) -> ToolResult:
    """Call a tool as an application does."""
    result: ToolResult = await session.coordinator.get("tools")[tool].execute(arguments)
    return result
