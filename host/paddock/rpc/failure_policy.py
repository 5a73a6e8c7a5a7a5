"""What the router asks of whoever decides about calls whose worker died, hangs, overdoes it or breaks the protocol."""

from __future__ import annotations

from typing import Protocol

from paddock.rpc.calls import RoutedCall
from paddock.rpc.peer import Encoded, Handle, Peer
from paddock_sdk.protocol import RemoteProtocolError


class FailurePolicy(Protocol):
    """What becomes of calls into a worker that is dead, dying, overstaying or says too much."""

    async def revive(self, handle: Handle, method: str) -> Encoded | None:
        """Bring the owner of `handle` back, and `handle` with it.

        When it stays dead, return what stands in for the answer of `method`, or raise.
        """

    async def answer_for(self, call: RoutedCall, method: str, tries: int) -> Encoded | None:
        """Return what stands in for the lost answer, None to make the call again; raise to fail it.

        `tries` counts the lives that the call has cost, this one included.
        """

    def instead_of(self, call: RoutedCall, method: str, weight: int, most: int) -> Encoded | None:
        """Return what is answered in place of an answer that takes more memory than it may, None to let it pass."""

    def on_overdue(self, peer: Peer, call: RoutedCall) -> None:
        """`call` has run longer than it may."""

    def on_violation(self, peer: Peer, error: RemoteProtocolError) -> None:
        """The worker broke the protocol."""

    def on_lost(self, peer: Peer) -> None:
        """The worker's connection is gone."""
