"""A tool whose runs can be counted: each leaves a line in a file before it answers."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from amplifier_core.models import ToolResult


class Mark:
    """Appends what it is told to `marks.txt`, and takes a moment."""

    name = "mark"
    description = "leaves a mark"

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        marks = os.open("marks.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(marks, f"{input['what']}\n".encode())
        os.close(marks)
        await asyncio.sleep(0.002)
        return ToolResult(output=f"marked {input['what']}")


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("tools", Mark())
