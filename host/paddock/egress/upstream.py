"""A connection to a destination, as those who speak HTTP on it see it."""

from __future__ import annotations

from paddock.egress.connection_record import ConnectionRecord, Outcome
from paddock.egress.injection import InjectedKeys
from paddock.egress.stream import SocketStream, Stream
from paddock.plan.host_name import Destination


class UpstreamConnection:
    """An open connection to `destination`; what is said on `stream` goes through `below`.

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
        """Let a reader of it find the end."""
        self.below.hang_up()

    def drop(self) -> None:
        """Close it in no orderly way; its record is its owner's to end."""
        self.below.reset()

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Close it; an end that is not orderly is one that the destination cannot take for one."""
        if outcome == "ended":
            self.below.close()
        else:
            self.below.reset()
        self.record.end(outcome, reason)
