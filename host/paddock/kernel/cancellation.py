"""The session's cancellation token at the host, and what modules ask of it (adr/0002).

The orchestrator and hooks may cancel the running turn; that is over when the next one begins. What the application asks
for stays until it resets the token, as the contract says, or the orchestrator does. A wish that a session passes on to
one below it is the application's there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from paddock.errors import CallRefusedError, Denial
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.kernel.cancellation import CancellationState, CancellationToken
from paddock_sdk.protocol import RemoteProtocolError

if TYPE_CHECKING:
    from paddock.kernel.module import HostedModule

_MAX_RUNNING: Final = 256  # tools of one module at a time; everyone is told of all of them at each start and end
_MAX_NAME: Final = 200  # characters of a call's id and of a tool's name


class HostedCancellationToken(CancellationToken):
    """A `CancellationToken` that tells the application's wish from those of modules."""

    def __init__(self) -> None:
        super().__init__()
        self._lasting = CancellationState.NONE

    def request_graceful(self) -> bool:
        """Ask to stop after the tools that run, until this is reset."""
        if self._lasting is CancellationState.NONE:
            self._lasting = CancellationState.GRACEFUL
        return super().request_graceful()

    def request_immediate(self) -> bool:
        """Ask to stop at once, until this is reset."""
        self._lasting = CancellationState.IMMEDIATE
        return super().request_immediate()

    def request_for_this_turn(self, *, immediate: bool) -> bool:
        """Ask to stop in a module's name; return whether that changed anything."""
        return super().request_immediate() if immediate else super().request_graceful()

    def reset(self) -> None:
        """Withdraw every wish, and forget the running tools."""
        self._lasting = CancellationState.NONE
        super().reset()

    def withdraw(self) -> None:
        """Withdraw what modules asked for: when the next turn begins, or when one of them wants it no more."""
        lasting = self._lasting
        if self._state is not lasting:
            self.reset()
            if lasting is CancellationState.GRACEFUL:
                self.request_graceful()


class CancellationService:
    """Serves one session's workers in what is about its cancellation; `now` is the loop's time."""

    def __init__(self, token: HostedCancellationToken, now: Callable[[], float]) -> None:
        self._token = token
        self._now = now

    def request(self, module: HostedModule, args: Any) -> object:
        """Cancel the running turn, or withdraw that it is cancelled; return whether that changed anything."""
        match args:
            case ["graceful" | "immediate" as urgency]:
                module.authority.check_cancellation("cancel", "the turn")
                return self._token.request_for_this_turn(immediate=urgency == "immediate")
            case ["reset"]:
                module.authority.check_cancellation("reset", "the turn's cancellation")
                if module.kind == "orchestrator":  # it is who heeds the wish, or does not
                    self._token.reset()
                else:
                    self._token.withdraw()
                return True
        raise _malformed("a cancellation")

    async def trigger_callbacks(self, module: HostedModule, args: Any) -> None:
        """Run what every module wants to have called when a turn is cancelled."""
        module.authority.check_cancellation("trigger", "the callbacks of a cancellation")
        await self._token.trigger_callbacks()

    def tool_started(self, module: HostedModule, args: Any) -> None:
        """Take note that a module runs a tool."""
        match args:
            case [str() as call_id, str() as name]:
                call_id, name = call_id[:_MAX_NAME], name[:_MAX_NAME]
                if (
                    not module.rates.running.admits(self._now())
                    or module.allowance.number_of("running") == _MAX_RUNNING
                ):
                    reason = f"more than {_MAX_RUNNING} at a time, or {module.rates.running.describe()}"
                    raise CallRefusedError(Denial("run", "tools", module.name, reason=reason))
                try:
                    module.allowance.spend(("running", call_id), len(call_id) + len(name))
                except OverLimitError as exc:
                    raise CallRefusedError(Denial("run", "tools", module.name, reason=str(exc))) from exc
                self._token.register_tool_start(call_id, name)
                return
        raise _malformed("the start of a tool")

    def tool_completed(self, module: HostedModule, args: Any) -> None:
        """Take note that a tool has ended."""
        match args:
            case [str() as call_id]:
                call_id = call_id[:_MAX_NAME]
                if module.allowance.spent(("running", call_id)):  # else it is another's
                    module.allowance.give_back(("running", call_id))
                    self._token.register_tool_complete(call_id)
                return
        raise _malformed("the end of a tool")


def _malformed(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what} that is none")
