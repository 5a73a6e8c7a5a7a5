"""How much one module may send to public hosts and get from them, and how often it may connect: slowed, never refused.

All connections by the grant `public` draw on the same budgets, over all lives of the module in a session.
"""

from __future__ import annotations

from paddock.egress.bounds import EgressLimits
from paddock.token_bucket import TokenBucket


class PublicRates:
    """The budgets of one module; a token of `up` and `down` is a byte, one of `connections` a connection."""

    def __init__(self, bounds: EgressLimits) -> None:
        self.connections = TokenBucket(bounds.public_connections_per_second, bounds.public_connections_at_once)
        self.up = TokenBucket(bounds.public_up_per_second, bounds.public_up_at_once)
        self.down = TokenBucket(bounds.public_down_per_second, bounds.public_down_at_once)
