"""What there is of a sub-session between its turns: who it is, what it mounts, and what was said so far."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.kernel.session_plan import SessionPlan
from paddock.rpc.handle import Encoded


@dataclass(slots=True)
class Conversation:
    """One sub-session over all its turns; `transcript` are its messages after the last one, None before the first.

    `instruction` is what its model is told before anything else, `history` what its parent had it know from the start.
    """

    id: str
    parent_id: str
    agent: str
    plan: SessionPlan
    self_delegation_depth: int
    instruction: str
    history: tuple[dict[str, object], ...]
    transcript: Encoded | None = None
