"""Which tools the model may call, and which tool a call goes to, as hooks decide.

Hooks can narrow and exchange tools; they cannot add a tool that is not mounted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_loop.hook_gate import HookGate
from agent_loop.spans import Span
from agent_loop.tool_batch import ToolBatch
from amplifier_core.message_models import ToolCall

RESOLUTION = "decision:tool_resolution"
SELECTING = "tool:selecting"
SELECTED = "tool:selected"


async def resolve_tools(gate: HookGate, span: Span, tools: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tools to offer with a request: those that hooks leave of the mounted ones."""
    if not tools:
        return tools
    verdict = await gate.ask(RESOLUTION, span, {"tools": list(tools)})
    if verdict.action == "deny":
        return {}
    left = (verdict.data or {}).get("tools")
    return {name: tool for name, tool in tools.items() if name in left} if isinstance(left, list) else tools


class SelectingBatch(ToolBatch):
    """The calls of one reply, each put to the hooks before its tool is looked up."""

    async def choose(self, call: ToolCall, span: Span) -> ToolCall | str:
        about = {"tool_call_id": call.id, "tool_input": call.arguments, "available_tools": list(self.tools)}
        verdict = await self.gate.ask(SELECTING, span, {**about, "tool_name": call.name})
        if verdict.action == "deny":
            return f"Denied: {verdict.reason or 'a hook refused this choice of tool'}"
        data = verdict.data or {}
        names = (data.get("tool"), data.get("tool_name"))  # a hook sets `tool`, or changes `tool_name`
        name = next((name for name in names if isinstance(name, str) and name), call.name)
        is_other = name != call.name
        selected = {
            "tool_call_id": call.id,
            "tool": name,
            "source": "scheduler" if is_other else "llm",
            "original_tool": call.name if is_other else None,
        }
        await self.gate.announce(SELECTED, span, selected)
        return call.model_copy(update={"name": name}) if is_other else call
