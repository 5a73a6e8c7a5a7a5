"""A tool whose `execute` each test spells out: what code in a module's process finds, the test gets to see."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from integration.conftest import WriteModule

_TOOL = """
import asyncio
import inspect
import threading

from amplifier_core.models import ToolResult

class Probe:
    name = "{name}"
    description = "does what the test spells out"

    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def execute(self, input):
        coordinator = self.coordinator
{body}

async def mount(coordinator, config):
    await coordinator.mount("tools", Probe(coordinator))
"""


def tool_code(name: str, body: str) -> str:
    """Return the code of a module with a tool of that name whose `execute` is `body`."""
    return _TOOL.format(name=name, body=textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8))


def probe(write_module: WriteModule, body: str, name: str = "probe", **entry: Any) -> dict[str, Any]:
    """Return the entry of a tool of that name whose `execute` is `body`."""
    module = f"tool-{name}"
    return {"module": module, "source": write_module(module, tool_code(name, body)), **entry}


async def probed(session: Any, tool: str = "probe", /, **input: Any) -> Any:
    """Return what a tool comes to."""
    answer = json.loads(await session.execute(json.dumps({"tool": tool, "input": input})))
    assert answer["success"], answer["error"]
    return answer["output"]
