"""Limits on one module's use of the network: amounts at a time, and durations."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.token_bucket import TokenBucket


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """Numbers far above what any known client needs, and far below what would delay the host."""

    connections: int = 64
    waiting_seconds: float = 10.0  # for one of those to end, before a connection beyond them is refused
    head_bytes: int = 16 * 1024  # of a request, or of the bytes that show a client's protocol
    head_seconds: float = 5.0  # from the first byte of that to the last
    connect_seconds: float = 10.0  # lookup, every address that is tried, and TLS if it is begun here
    idle_seconds: float = 600.0  # without a byte either way; models think for minutes
    accepts_per_second: float = 200.0
    accepts_at_once: float = 400.0
    requests_per_second: float = 1000.0
    requests_at_once: float = 2000.0
    lookups_per_second: float = 200.0
    lookups_at_once: float = 400.0
    real_address_seconds: float = 2.0  # to look it up before a name's first answer, for which clients wait five seconds
    # For all connections of the module that only the grant `public` allows, together.
    public_connections_per_second: float = 20.0
    public_connections_at_once: float = 100.0
    public_up_per_second: float = 1 << 20
    public_up_at_once: float = 64 << 20
    public_down_per_second: float = 16 << 20
    public_down_at_once: float = 1 << 30


class PublicRates:
    """The budgets of one module for public hosts: slowed, never refused.

    All connections by the grant `public` draw on the same budgets, over all lives of the module in a session. A token
    of `up` and `down` is a byte, one of `connections` a connection.
    """

    def __init__(self, bounds: EgressLimits) -> None:
        self.connections = TokenBucket(bounds.public_connections_per_second, bounds.public_connections_at_once)
        self.up = TokenBucket(bounds.public_up_per_second, bounds.public_up_at_once)
        self.down = TokenBucket(bounds.public_down_per_second, bounds.public_down_at_once)
