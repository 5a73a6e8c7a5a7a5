"""The session's cancellation as modules use it, and which of them may (session/decisions.md, 0002)."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

from paddock.errors import CallRefusedError, Denial
from paddock.rpc.peer import Handle, HostObject
from paddock.session.host_api.handler import Decode, handles
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock.session.state.cancellation import HostedCancellationToken
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol.methods import HostMethod

_MAX_RUNNING: Final = 256  # tools of one module at a time; all of them are sent to every worker at each start and end
_MAX_NAME: Final = 200  # characters of a call's id and of a tool's name


class CancellationService(ServicePart):
    """Serves the cancellation requests of one session's workers."""

    @property
    def _token(self) -> HostedCancellationToken:
        return self._coordinator.cancellation

    @handles(HostMethod.REQUEST_CANCEL, "cancellation request")
    def request(self, module: HostedModule, urgency: Literal["graceful", "immediate", "reset"]) -> bool:
        """Cancel the running turn, or withdraw the cancellation; return whether that changed anything."""
        if urgency != "reset":
            module.authority.check_cancellation("cancel", "the turn")
            return self._token.request_for_this_turn(immediate=urgency == "immediate")
        module.authority.check_cancellation("reset", "the turn's cancellation")
        if module.kind == "orchestrator":  # the orchestrator heeds the wish, or does not
            self._token.reset()
        else:
            self._token.withdraw()
        return True

    @handles(HostMethod.ON_CANCEL, "callback registration", decode=Decode.HANDLES)
    def on_cancel(self, module: HostedModule, callback: Handle | HostObject) -> None:
        """Register a function to be called when callbacks are triggered."""
        function = self._functions.of(module, callback)
        module.quota.spend(("on cancel", self._functions.number()), module.peer.weight_of(callback))
        self._token.on_cancel(partial(self._functions.run_if_alive, module.peer, function))

    @handles(HostMethod.TRIGGER_CANCEL_CALLBACKS)
    async def trigger_callbacks(self, module: HostedModule) -> None:
        """Run the functions that modules registered for the cancellation of a turn."""
        module.authority.check_cancellation("trigger", "the callbacks of a cancellation")
        await self._token.trigger_callbacks()

    @handles(HostMethod.TOOL_STARTED, "notice of a tool's start", decode=Decode.DATA, is_notice=True)
    def tool_started(
        self,
        module: HostedModule,
        call_id: str,
        tool: str,
    ) -> None:
        """Note that a module runs a tool."""
        call_id, tool = call_id[:_MAX_NAME], tool[:_MAX_NAME]
        if not module.rate_limits.running.admits(self._now()) or module.quota.number_of("running") == _MAX_RUNNING:
            reason = f"more than {_MAX_RUNNING} at a time, or {module.rate_limits.running.describe()}"
            raise CallRefusedError(Denial("run", "tools", module.name, reason=reason))
        try:
            module.quota.spend(("running", call_id), len(call_id) + len(tool))
        except OverLimitError as exc:
            raise CallRefusedError(Denial("run", "tools", module.name, reason=str(exc))) from exc
        self._token.register_tool_start(call_id, tool)
        self._token.note_call(call_id, tool, self._now())

    @handles(HostMethod.TOOL_COMPLETED, "notice of a tool's end", decode=Decode.DATA, is_notice=True)
    def tool_completed(self, module: HostedModule, call_id: str) -> None:
        """Note that a tool has ended."""
        call_id = call_id[:_MAX_NAME]
        if module.quota.spent(("running", call_id)):  # else it is another's
            module.quota.give_back(("running", call_id))
            self._token.register_tool_complete(call_id)
