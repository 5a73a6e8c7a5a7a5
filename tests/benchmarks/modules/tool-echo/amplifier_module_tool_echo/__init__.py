"""Two tools that do nothing, so that what is measured is the way to them and back."""

from __future__ import annotations

from typing import Any

from amplifier_core import ToolResult

__amplifier_module_type__ = "tool"

_REPLY = {
    "path": "/srv/project/src/package/module.py",
    "found": True,
    "lines": [12, 48, 131],
    "text": "the third line of the answer is the longest of them all, by a word or two",
}


class Echo:
    """A small call with a small answer."""

    description = "Answer with a small mapping."
    input_schema = {"type": "object"}

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return an answer of the usual size."""
        return ToolResult(success=True, output=_REPLY)


class Swallow:
    """A large call with a tiny answer."""

    name = "swallow"
    description = "Answer with the size of what came."
    input_schema = {"type": "object"}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return how many bytes came."""
        return ToolResult(success=True, output=len(input["data"]))


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount both; with a name of its own for the first, only that."""
    name = (config or {}).get("name")
    echo = Echo(name or "echo")
    await coordinator.mount("tools", echo, name=echo.name)
    if name is None:
        await coordinator.mount("tools", Swallow(), name=Swallow.name)
