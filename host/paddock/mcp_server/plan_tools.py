"""The tools of a plan's session, served to an MCP client.

A call goes the way of a turn's: hooks may refuse it, change it or have a person asked, before the tool runs and after.
There is no conversation, so what hooks would tell a model is dropped. A failed call names what its module was refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, cast

from paddock.errors import Denial, ModuleDiedError
from paddock.mcp_server.client_approval import PROGRESS, ClientApproval, tell_progress
from paddock.mcp_server.one_server import definitions_of
from paddock.mcp_server.served import ClientCall, Json
from paddock.session.hosted_session import HostedSession
from paddock.session.requester import PendingPrompts, collecting_prompts, requesting
from paddock_sdk.contract import events
from paddock_sdk.contract.models import HookResult, ToolResult
from paddock_sdk.mcp.blocks import to_result


class ServedPlan:
    """The tools of an open session; `plain` returns a value in JSON's own types, with secrets hidden."""

    instructions: Final = ""

    def __init__(self, kernel: HostedSession, approval: ClientApproval, plain: Callable[[object], Any]) -> None:
        self._kernel = kernel
        self._coordinator = kernel.hosted
        self._approval = approval
        self._plain = plain
        self._prompts = PendingPrompts()
        self._changed: Callable[[], None] = lambda: None
        self._known = self.tools()
        self._had_tools = bool(self._known)
        self._coordinator.hooks.register(PROGRESS, tell_progress)

    @property
    def capabilities(self) -> Json:
        """What a server of tools alone can do."""
        return {"tools": {"listChanged": True}}

    def tools(self) -> Sequence[Json]:
        """Return the definitions of the tools at this moment, sorted by name."""
        return [self._plain(one) for one in definitions_of(self._kernel.tools())]

    async def ask(self, method: str, params: Json) -> Json:
        """Refuse a request about prompts or resources: a plan has none.

        Raises:
            LookupError: always.
        """
        raise LookupError(f"{method} is not offered")

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have a function called whenever the tools are others, or nothing is served any more."""
        self._changed = changed
        self._kernel.on_module_end(self._look)

    @property
    def end(self) -> Exception | None:
        """Why no tool is left, where all modules that had some ended for good."""
        if self._known or not self._had_tools:
            return None
        for module in self._kernel.statuses():
            for report in module.exit_reports:
                return ModuleDiedError(report.module, report, hints=report.hints)
        return None

    def _look(self) -> None:
        tools = self.tools()
        if tools != self._known:
            self._known = tools
            self._changed()

    async def call(self, name: str, arguments: Json, call: ClientCall) -> Json:
        """Call a tool; what its module was refused stands in a failed result.

        Raises:
            LookupError: there is no such tool.
        """
        tool = self._kernel.tools().get(name)
        if tool is None:
            raise LookupError(f"there is no tool {name!r}")
        about = {
            "tool_name": name,
            "tool_call_id": uuid.uuid4().hex,
        }
        try:
            with self._approval.serving(call):
                fields = await self._outcome(tool, about, dict(arguments))
        finally:
            self._look()  # a module that was started again may have other tools
        result = to_result(self._plain(fields))
        if result["isError"]:
            for line in await self._refused_in(about["tool_call_id"]):
                block = {"type": "text", "text": self._plain(line)}
                result["content"].append(block)
        return result

    async def _refused_in(self, call_id: str) -> Sequence[str]:
        """Return what the module of a call was refused during it, each with the line that allows it."""
        lines: dict[str, None] = {}
        for facts in await self._kernel.denials_of(call_id):
            denial = Denial(**cast(Mapping[str, Any], facts))
            lines[f"{denial.describe()}; {denial.hint}"] = None
        return [*lines]

    async def _outcome(self, tool: Any, about: Json, arguments: dict[str, Any]) -> Json:
        """Return the fields of a tool result: the tool's, or what hooks made of the call."""
        verdict = await self._judge(events.TOOL_PRE, about, tool_input=arguments)
        if verdict.action == "deny":
            reason = verdict.reason or "a hook refused this tool call"
            return _failed(f"Denied: {reason}")
        given = _replaced(verdict, "tool_input", arguments)
        if not isinstance(given, dict):
            return _failed("a hook replaced the tool's input by something that is not a mapping")
        try:
            result = await self._execute(tool, about, given)
        except Exception as error:  # the module's, or that it ended
            kind = getattr(error, "remote_type", type(error).__name__)
            failure = {"type": kind, "msg": str(error)}
            await self._judge(events.TOOL_ERROR, about, tool_input=given, error=failure)
            return _failed(f"{kind}: {error}")
        shown = result.safe_hook_presentation()
        verdict = await self._judge(
            events.TOOL_POST,
            about,
            tool_input=given,
            result=shown,
            tool_result=shown,  # which hooks of the older contract read; their changes are in `result`
        )
        if verdict.action == "deny":
            reason = verdict.reason or "a hook withheld the result of this tool call"
            return _failed(f"Denied: {reason}")
        returned = _replaced(verdict, "result", shown)
        if returned is shown:
            return result.model_dump(warnings=False)
        if isinstance(returned, dict) and "output" in returned:
            return returned
        return {"output": returned}

    async def _execute(self, tool: Any, about: Json, arguments: dict[str, Any]) -> ToolResult:
        id = about["tool_call_id"]
        name = about["tool_name"]
        running = self._coordinator.cancellation
        running.register_tool_start(id, name)
        running.note_call(id, name, self._kernel.runtime.router.now())
        try:
            result = await tool.execute(arguments)
        finally:
            running.register_tool_complete(id)
        if isinstance(result, ToolResult):
            return result
        return ToolResult(output=result)

    async def _judge(self, event: str, about: Json, **data: Any) -> HookResult:
        """Emit an event, have a person asked what a hook wants to know, and return what is left to act on."""
        with collecting_prompts() as asked:
            result = await self._coordinator.hooks.emit(event, {**about, **data})
        if result.action == "inject_context":
            return result
        with ExitStack() as stack:
            if result.action == "ask_user":
                self._prompts.note(self, result.approval_prompt, asked)
                requester = self._prompts.take(self, result.approval_prompt)
                if requester is not None:
                    stack.enter_context(requesting(requester))
            return await self._coordinator.process_hook_result(result, event, event)


def _failed(message: str) -> Json:
    return {"success": False, "error": {"message": message}}


def _replaced(verdict: HookResult, key: str, sent: Any) -> Any:
    """Return a hook's value under the key, or the very object that was sent if it is unchanged.

    An event's data is a copy that JSON has been through, and only the original has its exact values.
    """
    if not verdict.data or key not in verdict.data:
        return sent
    returned = verdict.data[key]
    as_emitted = json.loads(json.dumps(sent, default=str))
    return sent if returned == as_emitted else returned
