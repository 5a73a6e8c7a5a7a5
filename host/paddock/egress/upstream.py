"""A connection to a destination, as HTTP code sees it."""

from __future__ import annotations

from paddock.egress.connection_record import ConnectionRecord, Outcome
from paddock.egress.injection import InjectedKeys
from paddock.egress.stream import SocketStream, Stream
from paddock.plan.host_name import Destination


class UpstreamConnection:
    """An open connection to `destination`; the bytes of `stream` go through `below`.

    It ends once, and its record with it.
    """

    def __init__(
        self,
        destination: Destination,
        below: SocketStream,
        stream: Stream,
        record: ConnectionRecord,
        keys: InjectedKeys,
    ) -> None:
        self.destination = destination
        self.stream = stream
        self.record = record
        self.keys = keys
        self.below = below

    def hang_up(self) -> None:
        """Let a reader of it see the end."""
        self.below.hang_up()

    def drop(self) -> None:
        """Close it abruptly; its owner ends its record."""
        self.below.reset()

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Close it; after any outcome but `ended`, the destination cannot take that for an orderly end."""
        if outcome == "ended":
            self.below.close()
        else:
            self.below.reset()
        self.record.end(outcome, reason)
