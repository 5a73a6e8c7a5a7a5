"""The session's cancellation token at the host (session/decisions.md, 0002).

The orchestrator and hooks may cancel the running turn; that ends when the next turn begins. The application's request
stays until the application resets the token, as the contract requires, or the orchestrator does. A request that a
session passes on to a sub-session counts as the application's there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paddock_sdk.kernel.cancellation import CancellationState, CancellationToken

_MAX_CALLS: Final = 1000  # the latest; a turn has tens


class HostedCancellationToken(CancellationToken):
    """A `CancellationToken` that keeps the application's request apart from those of modules."""

    def __init__(self, observer: Callable[[str], None]) -> None:
        super().__init__()
        self.observer = observer
        self._lasting = CancellationState.NONE
        self.tool_calls: dict[str, tuple[str, float]] = {}  # the tool and the beginning of each, in the loop's time

    def note_call(self, call_id: str, tool: str, now: float) -> None:
        """Remember a tool call, also after its end."""
        self.tool_calls[call_id] = tool, now
        if len(self.tool_calls) > _MAX_CALLS:
            del self.tool_calls[next(iter(self.tool_calls))]

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
        """Ask to stop on behalf of a module; return whether that changed anything."""
        return super().request_immediate() if immediate else super().request_graceful()

    def reset(self) -> None:
        """Withdraw every request, and forget the running tools."""
        self._lasting = CancellationState.NONE
        super().reset()

    def withdraw(self) -> None:
        """Withdraw modules' requests: when the next turn begins, or when a module withdraws its own."""
        lasting = self._lasting
        if self._state is not lasting:
            self.reset()
            if lasting is CancellationState.GRACEFUL:
                self.request_graceful()
