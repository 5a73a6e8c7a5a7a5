"""The tools that modules mounted in a session, served to an MCP client.

A call goes the way of a turn's: hooks may refuse it, change it or have a person asked, before the tool runs and after.
There is no conversation, so what hooks would tell a model is dropped. A failed call names what its module was refused.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from paddock.errors import Denial, ModuleDiedError
from paddock.mcp_server.client_approval import PROGRESS, ClientApproval, ClientCall, tell_progress
from paddock.session.host_api.definitions import DefinitionPins
from paddock.session.requester import PendingPrompts, collecting_prompts, requesting
from paddock.session.runtime import SessionRuntime
from paddock_sdk.contract import events
from paddock_sdk.contract.models import HookResult, ToolResult
from paddock_sdk.mcp.blocks import to_result
from paddock_sdk.mcp.definitions import of_mounted
from paddock_sdk.mcp.messages import Json

Explain = Callable[[Sequence[Denial], str], Sequence[str]]
"""Returns what a client is told, as lines, of a call or a start that failed: what was refused, and its error."""

_SHOWN: Final = ("title", "description", "input_schema", "output_schema", "annotations")  # of a mounted tool

_log = logging.getLogger(__name__)


def lines_of(denials: Sequence[Denial]) -> Sequence[str]:
    """Return each refused act with the line of a plan that allows it."""
    return [*dict.fromkeys(f"{one.describe()}; {one.hint}" for one in denials)]


class ServedTools:
    """The tools on a runtime, to one client, whose calls may run side by side; cancelling a call ends it.

    `plain` returns a value in JSON's own types, with secrets hidden. Where all is of one MCP server, which has `pins`,
    its prompts, resources and instructions are served too.
    """

    def __init__(
        self,
        runtime: SessionRuntime,
        approval: ClientApproval,
        plain: Callable[[object], Any],
        explain: Explain = lambda denials, error: lines_of(denials),
        pins: DefinitionPins | None = None,
    ) -> None:
        self._runtime = runtime
        self._coordinator = runtime.coordinator
        self._approval = approval
        self._plain = plain
        self._explain = explain
        self._pins = pins
        self._prompts = PendingPrompts()
        self._changed: Callable[[], None] = lambda: None
        self._known = self.tools()
        self._had_tools = bool(self._known)
        self._coordinator.hooks.register(PROGRESS, tell_progress)

    @property
    def _server(self) -> Any:
        """What a module that is an MCP server offers beside its tools."""
        return self._pins and self._coordinator.get_capability(f"mcp.{self._pins.module}")

    @property
    def capabilities(self) -> Json:
        """The protocol's capabilities of a server: `tools`, and `prompts` and `resources` where there are any."""
        offered = getattr(self._server, "capabilities", None) or {}
        more: Json = {name: {} for name in ("prompts", "resources") if name in offered}
        return {"tools": {"listChanged": True}, **more}

    @property
    def instructions(self) -> str:
        """What a client is told about the whole, for its model."""
        return "" if self._pins is None else str(self._plain(self._pins.instructions))

    def tools(self) -> Sequence[Json]:
        """Return the definitions of the tools at this moment, sorted by name.

        One whose name no client takes is left out.
        """
        found = []
        for name, tool in sorted(self._mounted().items()):
            with suppress(ValueError):
                found.append(self._plain(_definition(name, tool)))
        return found

    def _mounted(self) -> dict[str, Any]:
        """Return the tools by their names, without those of modules that are not started again."""
        mounted = self._coordinator.get("tools").items()
        return {name: tool for name, tool in mounted if not self._is_over(tool)}

    def _is_over(self, tool: object) -> bool:
        module = self._runtime.module_of(tool)
        return module is not None and (module.supervisor.quarantined or module.supervisor.is_revoked)

    async def ask(self, method: str, params: Json) -> Json:
        """Answer a request about prompts or resources.

        Raises:
            LookupError: it is not offered.
        """
        if self._server is None:
            raise LookupError(f"{method} is not offered")
        answer = await self._server.ask(method, dict(params))
        if not isinstance(answer, Mapping):
            raise TypeError(f"the server answered {method} with no result")
        return answer

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have a function called whenever the tools are others, or nothing is served any more."""
        self._changed = changed
        for module in self._runtime.modules.all:
            module.supervisor.on_exit(lambda report: self._look())

    @property
    def end(self) -> Exception | None:
        """Why no tool is left, where all modules that had some ended for good; None as long as it goes on."""
        if self._known or not self._had_tools:
            return None
        for module in self._runtime.modules.all:
            for report in module.reports:
                return ModuleDiedError(report.module, report, hints=report.hints)
        return None

    def _look(self) -> None:
        tools = self.tools()
        if tools != self._known:
            self._known = tools
            self._changed()

    async def call(self, name: str, arguments: Json, call: ClientCall) -> Json:
        """Call a tool, and return the protocol's result; what was refused stands in a failed one, with `isError`.

        Raises:
            LookupError: there is no such tool.
        """
        tool = self._mounted().get(name)
        if tool is None:
            denials = (one for module in self._runtime.modules.all for one in module.denials)
            refused = [one.describe() for one in denials if one.target == f"tools:{name}"]
            raise LookupError(self._plain("; ".join([f"there is no tool {name!r}", *dict.fromkeys(refused)])))
        began = self._runtime.router.now()
        try:
            with self._approval.serving(call):
                fields = await self._outcome(name, tool, dict(arguments))
        finally:
            self._look()  # a module that was started again may have other tools
        result = to_result(self._plain(fields))
        if result["isError"]:
            during = await self._runtime.denials_of(tool, began)
            for line in self._explain(during, result["content"][0]["text"]):
                _log.warning("%s", line)
                result["content"].append({"type": "text", "text": self._plain(line)})
        return result

    async def _outcome(self, name: str, tool: Any, arguments: dict[str, Any]) -> Json:
        """Return the fields of a tool result: the tool's, or what hooks made of the call."""
        about = {"tool_name": name, "tool_call_id": uuid.uuid4().hex}
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

    async def _execute(
        self,
        tool: Any,
        about: Mapping[str, str],
        arguments: dict[str, Any],
    ) -> ToolResult:
        id = about["tool_call_id"]
        running = self._coordinator.cancellation
        running.register_tool_start(id, about["tool_name"])
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


def _definition(name: str, tool: object) -> Json:
    """Return the definition of a mounted tool; what no client could use of it is left out."""
    shown = {one: getattr(tool, one, None) for one in _SHOWN}
    try:
        return of_mounted({**shown, "name": name})
    except ValueError:
        return of_mounted({"name": name, "description": str(shown["description"] or "")})


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
