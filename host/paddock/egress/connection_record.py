"""The record of one connection: its destination, its result, its number of bytes; nothing of its content.

It also has the connection itself, as HTTP code sees it. Bytes are those between the host and the destination, as they
were on the wire. A record is written once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from paddock.egress.errors import EgressRefusedError
from paddock.egress.injection import InjectedKeys
from paddock.egress.stream import SocketStream, Stream, TrafficCounts, hang_up
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import NetRule

Route = Literal["direct", "proxy"]
Spoken = Literal["", "tls", "http", "raw", "inject"]
Outcome = Literal["ended", "refused", "failed", "idle", "cut"]

UsedGrants = Mapping[str, set[str]]
"""Grants by family, `net` and `secrets`, that allowed connections: rules as written, and names of inserted secrets."""

EVENT: Final = "egress.connection"


class Recorder(Protocol):
    """The receiver of records."""

    def record(self, event: str, /, **facts: object) -> None:
        """Keep an event; never raises."""
        ...


class ConnectionRecord(TrafficCounts):
    """The record of one connection of a module."""

    def __init__(self, recorder: Recorder, module: str, way: Route, used: UsedGrants) -> None:
        super().__init__()
        self.destination = ""
        self.address = ""
        self.rule = ""
        self.protocol: Spoken = ""
        self.requests = 0
        self._injected: set[str] = set()
        self._echoes = 0
        self._recorder = recorder
        self._module = module
        self._way = way
        self._used = used
        self._since = time.monotonic()
        self._has_ended = False

    def goes_to(self, destination: Destination, rule: NetRule) -> None:
        """Note the destination, and the rule that allows it."""
        self.destination, self.rule = destination.text, rule.written

    def reaches(self, address: str) -> None:
        """Note which of the destination's addresses the connection leads to."""
        self.address = address
        self._used["net"].add(self.rule)

    def speaks(self, protocol: Spoken) -> None:
        """Note the protocol."""
        self.protocol = protocol

    def count_keys(self, injected: Iterable[str] = (), *, echoes: int = 0) -> None:
        """Note the keys that were put into a request, and how often one was found in its answer."""
        self._injected |= set(injected)
        self._used["secrets"].update(self._injected)
        self._echoes += echoes

    def next(self) -> ConnectionRecord:
        """Return the record of another connection, which begins now, with the same destination and client."""
        record = ConnectionRecord(self._recorder, self._module, self._way, self._used)
        record.destination, record.rule, record.protocol = self.destination, self.rule, self.protocol
        return record

    def refuse(self, refused: EgressRefusedError) -> None:
        """Write the record of a connection that was refused before it went anywhere."""
        self.destination = refused.target
        self.end("refused", refused.reason)

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Write the record, with a remark on its end; the first end counts."""
        if self._has_ended:
            return
        self._has_ended = True
        if outcome != "refused":
            self._used["net"].add(self.rule)
        more: dict[str, object] = {"reason": reason} if reason else {}
        if self.requests:
            more["requests"] = self.requests
        if self._injected or self._echoes:
            more |= {"injected": sorted(self._injected), "echoes": self._echoes}
        self._recorder.record(
            EVENT,
            module=self._module,
            destination=self.destination,
            address=self.address,
            rule=self.rule,
            way=self._way,
            protocol=self.protocol,
            up=self.up,
            down=self.down,
            seconds=round(time.monotonic() - self._since, 3),
            outcome=outcome,
            **more,
        )


@dataclass(eq=False, slots=True)
class UpstreamConnection:
    """An open connection to `destination`; the bytes of `stream` go through `below`.

    It ends once, and its record with it.
    """

    destination: Destination
    below: SocketStream
    stream: Stream
    record: ConnectionRecord
    keys: InjectedKeys

    def hang_up(self) -> None:
        """Let a reader of it see the end."""
        hang_up(self.below.sock)

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
