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

    name = "echo"
    description = "Answer with a small mapping."
    input_schema = {"type": "object"}

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
    """Mount both."""
    await coordinator.mount("tools", Echo(), name=Echo.name)
    await coordinator.mount("tools", Swallow(), name=Swallow.name)
