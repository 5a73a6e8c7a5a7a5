"""What there is of a sub-session between its turns: who it is, what it mounts, and what was said so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from paddock.session.session_plan import SessionPlan
from paddock.session.sub_sessions.spawn_payload import weight

_BESIDE: Final = 8192  # for lists of entries and the like


@dataclass(slots=True)
class SubSessionState:
    """One sub-session over all its turns; `transcript` are its messages after the last one, None before the first.

    The transcript is encoded, and holds on to nothing of the session that it was said in. `instruction` is what its
    model is told before anything else, `history` what its parent had it know from the start, and let go with that.
    """

    id: str
    parent_id: str
    agent: str
    plan: SessionPlan
    self_delegation_depth: int
    instruction: str
    history: tuple[dict[str, Any], ...]
    transcript: bytes | None = None

    def said(self, transcript: bytes) -> None:
        """Take what was said up to now, which begins with what it was to know."""
        self.transcript = transcript
        self.history = ()

    def size(self) -> int:
        """Return about how many bytes of memory it takes once it has ended: rather more."""
        return len(self.transcript or b"") + weight(self.plan.raw, self.plan.told, self.history) + _BESIDE
