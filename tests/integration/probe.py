"""A tool whose `execute` each test spells out: what code in a module's process finds, the test gets to see."""

from __future__ import annotations

import json
from typing import Any

from integration.conftest import WriteModule

_PROBE = """
    import asyncio
    import inspect
    import threading

    from amplifier_core.models import ToolResult

    class Probe:
        name = "probe"
        description = "does what the test spells out"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            coordinator = self.coordinator
{body}

    async def mount(coordinator, config):
        await coordinator.mount("tools", Probe(coordinator))
"""


def probe(write_module: WriteModule, body: str, **entry: Any) -> dict[str, Any]:
    """Return the entry of a tool `probe` whose `execute` is `body`."""
    lines = "\n".join(f"            {line}" for line in body.strip("\n").splitlines())
    return {"module": "tool-probe", "source": write_module("tool-probe", _PROBE.format(body=lines)), **entry}


async def probed(session: Any, **input: Any) -> Any:
    """Return what the tool comes to."""
    answer = json.loads(await session.execute(json.dumps({"tool": "probe", "input": input})))
    assert answer["success"], answer["error"]
    return answer["output"]
