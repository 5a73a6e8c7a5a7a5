"""The basic loop on its stage, and tools that wait, for its tests."""

from __future__ import annotations

import asyncio
from typing import Any

import loop_stage
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockTool
from amplifier_module_loop_basic import BasicOrchestrator, LoopSettings
from loop_stage import Answer, Provider


class Stage(loop_stage.Stage):
    def __init__(self, *answers: Answer, tools: list[Any] | None = None, **settings: Any) -> None:
        super().__init__(BasicOrchestrator(LoopSettings(**settings)), Provider(*answers), tools)

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.context.messages]

    @property
    def tool_messages(self) -> list[dict[str, Any]]:
        return [message for message in self.context.messages if message["role"] == "tool"]


def waiting_tool(
    name: str, started: asyncio.Event, gate: asyncio.Event | None = None, stopped: list[str] | None = None
) -> MockTool:
    tool = MockTool(name)

    async def execute(_: dict[str, Any]) -> ToolResult:
        started.set()
        try:
            await (gate or asyncio.Event()).wait()
        except asyncio.CancelledError:
            if stopped is not None:
                stopped.append(name)
            raise
        return ToolResult(output="finished")

    tool.execute = execute
    return tool
