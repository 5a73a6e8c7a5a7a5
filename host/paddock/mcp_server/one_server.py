"""One module for one client, served as it is, without an orchestrator: its tools, its prompts and its resources."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from paddock.errors import Denial, ModuleDiedError, PaddockError
from paddock.mcp_server.client_approval import PROGRESS, ClientApproval, tell_progress
from paddock.mcp_server.flagged_server import ServerModule
from paddock.mcp_server.served import ClientCall, Json
from paddock.session.lone_module import OpenedModule, opened
from paddock.session.module import HostedModule
from paddock.session.modules import failed_result
from paddock.session.recorder import SessionRecorder
from paddock_sdk.contract.display import DisplaySystem
from paddock_sdk.contract.models import ToolResult
from paddock_sdk.mcp.blocks import to_result
from paddock_sdk.mcp.definitions import of_mounted

_log = logging.getLogger(__name__)

_SHOWN: Final = ("title", "description", "input_schema", "output_schema", "annotations")  # of a mounted tool


Explain = Callable[[Sequence[Denial]], Sequence[str]]
"""Returns what the client is told, as lines, of a call or a start that failed and during which this was refused."""


class ServedModule:
    """The tools of a module with their own definitions; of one that is an MCP server, its prompts and resources too."""

    def __init__(
        self,
        opened_module: OpenedModule,
        module: HostedModule,
        approval: ClientApproval,
        explain: Explain,
        plain: Callable[[object], Any],
    ) -> None:
        self._module = module
        self._approval = approval
        self._plain = plain
        self._changed: Callable[[], None] = lambda: None
        self._coordinator = opened_module.runtime.coordinator
        self._now = opened_module.runtime.router.now
        self._explain = explain
        self._known = self.tools()
        self._coordinator.hooks.register(PROGRESS, tell_progress)

    @property
    def _server(self) -> Any:
        """What a module that is an MCP server offers beside its tools; None of another module."""
        return self._coordinator.get_capability(f"mcp.{self._module.entry.module}")

    @property
    def capabilities(self) -> Json:
        """The protocol's capabilities of a server."""
        offered = getattr(self._server, "capabilities", None) or {}
        more: Json = {name: {} for name in ("prompts", "resources") if name in offered}
        return {"tools": {"listChanged": True}, **more}

    @property
    def instructions(self) -> str:
        """What the server says about itself."""
        return str(getattr(self._server, "instructions", None) or "")

    def tools(self) -> Sequence[Json]:
        """Return the definitions of the tools, sorted by name."""
        return [self._plain(one) for one in definitions_of(self._coordinator.get("tools"))]

    async def call(self, name: str, arguments: Json, call: ClientCall) -> Json:
        """Call a tool; what its module was refused stands in a failed result.

        Raises:
            LookupError: there is no such tool.
        """
        tool = self._coordinator.get("tools", name)
        if tool is None:
            refused = [one.describe() for one in self._module.denials if one.target == f"tools:{name}"]
            raise LookupError(self._plain("; ".join([f"there is no tool {name!r}", *dict.fromkeys(refused)])))
        began = self._now()
        try:
            with self._approval.serving(call):
                result = await tool.execute(dict(arguments))
        except Exception as error:  # the module's own, or of its death
            result = failed_result(error)
        finally:
            self._look()  # a module that was started again may have other tools
        if not isinstance(result, ToolResult):
            result = failed_result(TypeError(f"the tool returned `{type(result).__name__}`, and no result of a tool"))
        answer = to_result(self._plain(result.model_dump(warnings=False)))
        if not result.success:
            await self._module.attempts.settled()
            if lines := self._explain(self._module.denials_since(began)):
                answer["content"].append({"type": "text", "text": self._plain("\n".join(lines))})
            for line in lines:
                _log.warning("%s", line)
        return answer

    async def ask(self, method: str, params: Json) -> Json:
        """Answer a request about prompts or resources.

        Raises:
            LookupError: the module is no server that has them.
        """
        if self._server is None:
            raise LookupError(f"there is no method {method!r}")
        answer: Json = await self._server.ask(method, dict(params))
        return answer

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have a function called when a call left other tools behind, and when the module ended for good."""
        self._changed = changed
        self._module.supervisor.on_exit(lambda report: changed() if self.end is not None else None)

    def _look(self) -> None:
        tools = self.tools()
        if tools != self._known:
            self._known = tools
            self._changed()

    @property
    def end(self) -> Exception | None:
        """Why nothing is served any more: the module ended too often to be started again."""
        return self._module.supervisor.quarantine_error

    @property
    def exit_code(self) -> int:
        """The exit code of a command whose client has left: whether the server was still there."""
        has_died = bool(self._module.reports) and not self._module.is_running
        return ModuleDiedError.exit_code if has_died else 0


@asynccontextmanager
async def served(
    request: ServerModule,
    explain: Explain,
    plain: Callable[[object], Any],
    *,
    display: DisplaySystem | None = None,
) -> AsyncIterator[ServedModule]:
    """Provide the module of a request, started, for a client; nothing of it is left running.

    `plain` returns a value in JSON's own types, with secrets hidden.

    Raises:
        PaddockError: it is missing, is not allowed, or does not start.
    """
    options = request.options
    recorder = SessionRecorder.of_plan(
        request.plan(), options.session, options.audit, options.working_dir, options.environ
    )
    approval = ClientApproval(request.mask)
    async with opened(request, None, recorder, approval=approval, display=display) as lone:
        try:
            module = await lone.start()
        except PaddockError as error:
            for failed in lone.runtime.modules.all:
                await failed.stop()
                await failed.attempts.finish()
                error.hints = tuple(explain(failed.denials)) or error.hints
            raise
        for denial in module.denials:
            _log.warning("%s", denial.describe())
        try:
            yield ServedModule(lone, module, approval, explain, plain)
        finally:
            await lone.clean_up()


def definitions_of(tools: Mapping[str, object]) -> list[Json]:
    """Return the definitions of mounted tools, sorted by name; one whose name no client takes is left out."""
    found = []
    for name, tool in sorted(tools.items()):
        with suppress(ValueError):
            found.append(_definition(name, tool))
    return found


def _definition(name: str, tool: object) -> Json:
    """Return the definition of a mounted tool; what no client could use of it is left out."""
    shown = {one: getattr(tool, one, None) for one in _SHOWN}
    try:
        return of_mounted({**shown, "name": name})
    except ValueError:
        return of_mounted({"name": name, "description": str(shown["description"] or "")})
