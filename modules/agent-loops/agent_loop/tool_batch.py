"""Run the tool calls of one reply, side by side.

Every call ends with an outcome that the model can read: a hook's refusal, a tool that is missing or
raises, a cancellation. `outcomes` follows the order of the calls and fills as they end, so that a turn which is
cancelled half-way still knows what was done.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from amplifier_core import events
from amplifier_core.message_models import ToolCall
from amplifier_core.models import ToolResult

from .hook_gate import HookGate
from .interruption import Cancellation, wait_all
from .spans import Span

logger = logging.getLogger(__name__)

CANCELLED = "Error: the tool call was cancelled."
NOT_STARTED = "Error: the tool call was cancelled before it started."


class ToolBatch:
    """The calls of one reply and their outcomes."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        tools: Mapping[str, Any],
        gate: HookGate,
        cancellation: Cancellation,
        span: Span,
        coordinator: Any | None,
    ) -> None:
        self._calls = calls
        self.tools = tools
        self.gate = gate
        self._cancellation = cancellation
        self._span = span  # of the request whose reply made the calls
        self._dispatch_contexts = _dispatch_contexts(coordinator)
        self._group = str(uuid.uuid4())
        self.outcomes: list[str | None] = [None] * len(calls)

    async def run(self) -> list[str]:
        """Run every call; return the outcomes in the order of the calls."""
        if self._cancellation.requested:
            return [NOT_STARTED] * len(self._calls)
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(self._run(index, call), name=f"tool {call.name}") for index, call in enumerate(self._calls)
        ]
        await wait_all(tasks, self._cancellation)
        return [outcome if outcome is not None else CANCELLED for outcome in self.outcomes]

    async def choose(self, call: ToolCall, span: Span) -> ToolCall | str:
        """Return the call to make instead of the model's, or the text to give the model instead of a result."""
        return call

    async def _run(self, index: int, call: ToolCall) -> None:
        span = self._span.child()
        call = self._as_mounted(call)
        about = {"tool_name": call.name, "tool_call_id": call.id, "parallel_group_id": self._group}
        try:
            chosen = await self.choose(call, span)
            if isinstance(chosen, str):
                self.outcomes[index] = chosen
                return
            chosen = self._as_mounted(chosen)
            about["tool_name"] = chosen.name
            self.outcomes[index] = await self._outcome(chosen, span, about)
        except Exception as error:  # the model reads the error, and the turn goes on
            logger.debug("tool %s failed", call.name, exc_info=True)
            self.outcomes[index] = f"Error: {type(error).__name__}: {error}"
            await self._report(call, span, about, type(error).__name__, str(error))

    async def _outcome(self, call: ToolCall, span: Span, about: dict[str, Any]) -> str:
        tool = self.tools.get(call.name)
        if tool is None:
            message = f"Error: there is no tool named `{call.name}`; available: {', '.join(self.tools) or 'none'}"
            await self._report(call, span, about, "ToolNotFound", message)
            return message

        verdict = await self.gate.ask(events.TOOL_PRE, span, {**about, "tool_input": call.arguments})
        if verdict.action == "deny":
            return f"Denied: {verdict.reason or 'a hook refused this tool call'}"
        tool_input = _replaced(verdict.data, "tool_input", call.arguments)
        if not isinstance(tool_input, dict):
            raise TypeError("a hook replaced the tool's input by something that is not a mapping")

        result = await self._execute(tool, call, tool_input, span)

        shown = _shown(result)
        # Hooks of the older contract read `tool_result`; their changes are in `result`.
        seen = {**about, "tool_input": tool_input, "result": shown, "tool_result": shown}
        verdict = await self.gate.ask(events.TOOL_POST, span, seen)
        if verdict.action == "deny":
            return f"Denied: {verdict.reason or 'a hook withheld the result of this tool call'}"
        replacement = _replaced(verdict.data, "result", shown)
        return _serialized(result if replacement is shown else replacement)

    async def _execute(
        self,
        tool: Any,
        call: ToolCall,
        tool_input: dict[str, Any],
        span: Span,
    ) -> ToolResult:
        task = asyncio.current_task()
        self._dispatch_contexts[task] = {
            "tool_call_id": call.id,
            "parallel_group_id": self._group,
            **span.fields(),
        }
        self._cancellation.tool_started(call.id, call.name)
        try:
            result = await tool.execute(tool_input)
        finally:
            self._cancellation.tool_ended(call.id)
            self._dispatch_contexts.pop(task, None)
        return result if hasattr(result, "get_serialized_output") else ToolResult(success=True, output=result)

    def _as_mounted(self, call: ToolCall) -> ToolCall:
        """Return a call that names its tool by the tool's own name with the mounted one, which hooks judge it by.

        A mounted name counts first, and a name that several tools give themselves is none.
        """
        own = [mounted for mounted, tool in self.tools.items() if getattr(tool, "name", None) == call.name]
        is_mounted = call.name in self.tools or len(own) != 1
        return call if is_mounted else call.model_copy(update={"name": own[0]})

    async def _report(
        self,
        call: ToolCall,
        span: Span,
        about: dict[str, Any],
        kind: str,
        message: str,
    ) -> None:
        try:
            error = {"type": kind, "msg": message}
            await self.gate.ask(events.TOOL_ERROR, span, {**about, "tool_input": call.arguments, "error": error})
        except Exception:
            logger.warning("could not report the failure of tool %s", call.name, exc_info=True)


def _dispatch_contexts(coordinator: Any | None) -> dict[Any, Any]:
    """Return the coordinator's mapping from running tasks to the tool call each one makes, for tools to read."""
    if coordinator is None:
        return {}
    contexts = getattr(coordinator, "_tool_dispatch_contexts", None)
    if not isinstance(contexts, dict):
        contexts = coordinator._tool_dispatch_contexts = {}
    return contexts


def _shown(result: ToolResult) -> Any:
    """Return the result as hooks see it: plain data, images replaced by a line of text where the core can do that."""
    present = getattr(result, "safe_hook_presentation", None)
    return present() if callable(present) else result.model_dump()


def _replaced(data: Any, key: str, sent: Any) -> Any:
    """Return a hook's value under the key, or the very object that was sent if it is unchanged.

    An emit always returns a copy, and one that JSON has been through. So identity proves nothing, and only the original
    has its own order of keys and its exact values.
    """
    if not isinstance(data, dict) or key not in data:
        return sent
    returned = data[key]
    return sent if returned == json.loads(json.dumps(sent, default=str)) else returned


def _serialized(result: Any) -> str:
    """Return the text for the model, from a tool's result or from a hook's version of it."""
    if isinstance(result, dict) and {"success", "output"} & result.keys():
        result = ToolResult.model_validate(result)
    if hasattr(result, "get_serialized_output"):
        return str(result.get_serialized_output())
    return str(ToolResult(output=result).get_serialized_output())
