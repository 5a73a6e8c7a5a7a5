"""The ids that tell the events of one turn apart: turn, span, parent span and iteration."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

TURN_ID = "turn_id"  # the key under which an application leaves the id of the next turn in the session's state


@dataclass(frozen=True, slots=True)
class Span:
    """One operation within a turn; the turn itself is the root."""

    turn_id: str
    span_id: str
    parent_span_id: str | None = None
    iteration: int | None = None

    @classmethod
    def root(cls, turn_id: str | None) -> Span:
        """Return the span of a turn, with an id of its own where the application gave none."""
        return cls(turn_id or _new_id(), _new_id())

    def child(self, iteration: int | None = None) -> Span:
        """Return a new operation within this one; it belongs to the same iteration unless it begins another."""
        return Span(self.turn_id, _new_id(), self.span_id, self.iteration if iteration is None else iteration)

    def fields(self) -> dict[str, Any]:
        """Return the ids as events and requests carry them; those that do not apply are left out."""
        ids = {
            "turn_id": self.turn_id,
            "span_id": self.span_id,
            "parent_span_id": self.parent_span_id,
            "iteration": self.iteration,
        }
        return {name: value for name, value in ids.items() if value is not None}


def take_turn_id(coordinator: Any | None) -> str | None:
    """Return the turn id that the application left for this turn, and remove it: the next turn needs its own."""
    state = getattr(coordinator, "session_state", None)
    given = state.pop(TURN_ID, None) if isinstance(state, dict) else None
    return given if isinstance(given, str) and given else None


def _new_id() -> str:
    return uuid.uuid4().hex
