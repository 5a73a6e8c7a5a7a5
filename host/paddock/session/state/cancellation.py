"""The session's cancellation token at the host (adr/0002).

The orchestrator and hooks may cancel the running turn; that is over when the next one begins. What the application asks
for stays until it resets the token, as the contract says, or the orchestrator does. A wish that a session passes on to
one below it is the application's there.
"""

from __future__ import annotations

from collections.abc import Callable

from paddock_sdk.kernel.cancellation import CancellationState, CancellationToken


class HostedCancellationToken(CancellationToken):
    """A `CancellationToken` that tells the application's wish from those of modules."""

    def __init__(self, observer: Callable[[str], None]) -> None:
        super().__init__()
        self.observer = observer
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
