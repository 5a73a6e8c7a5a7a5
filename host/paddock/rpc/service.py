"""What the router asks of whoever serves the host's own methods."""

from __future__ import annotations

from typing import Protocol

from paddock.rpc.calls import IncomingCall
from paddock.rpc.peer import AnyHandle, Encoded, Peer


class HostMethods(Protocol):
    """The host's own methods."""

    def serve(self, call: IncomingCall, method: int, message: Encoded) -> None:
        """Answer `call`, now or later, through the router; raise RemoteProtocolError for nonsense."""

    def notice(self, peer: Peer, method: int, message: Encoded) -> None:
        """Take a notification."""

    def refuse(self, peer: Peer, handle: AnyHandle) -> BaseException:
        """Note that a worker may not call what it was shown; return what it is told."""

    def forget(self, peer: Peer) -> None:
        """A worker is gone."""
