"""What modules ask of the session's cancellation, and which of them may (adr/0002)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from paddock.errors import CallRefusedError, Denial
from paddock.session.module import HostedModule
from paddock.session.state.cancellation import HostedCancellationToken
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol import RemoteProtocolError

_MAX_RUNNING: Final = 256  # tools of one module at a time; everyone is told of all of them at each start and end
_MAX_NAME: Final = 200  # characters of a call's id and of a tool's name


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
                    not module.rate_limits.running.admits(self._now())
                    or module.quota.number_of("running") == _MAX_RUNNING
                ):
                    reason = f"more than {_MAX_RUNNING} at a time, or {module.rate_limits.running.describe()}"
                    raise CallRefusedError(Denial("run", "tools", module.name, reason=reason))
                try:
                    module.quota.spend(("running", call_id), len(call_id) + len(name))
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
                if module.quota.spent(("running", call_id)):  # else it is another's
                    module.quota.give_back(("running", call_id))
                    self._token.register_tool_complete(call_id)
                return
        raise _malformed("the end of a tool")


def _malformed(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what} that is none")
