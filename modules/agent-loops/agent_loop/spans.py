"""The ids that distinguish the events of one turn: turn, span, parent span and iteration.

The loop's own events carry all of them. `RunningTurns` makes every other event of the session carry the turn's.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

logger = logging.getLogger(__name__)

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
        """Return the span of a turn, with a new id if the application gave none."""
        return cls(turn_id or _new_id(), _new_id())

    def child(self, iteration: int | None = None) -> Span:
        """Return a new operation within this one; it belongs to the same iteration unless it begins another."""
        return Span(self.turn_id, _new_id(), self.span_id, self.iteration if iteration is None else iteration)

    def fields(self) -> dict[str, Any]:
        """Return the ids as events and requests carry them; those that do not apply are left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class RunningTurns:
    """Makes events of tools, contexts and hooks name the turn, by the fields that the registry adds to every event.

    An event that names a turn itself keeps it. While turns run side by side, the fields name none, since they can name
    only one. The contract has no way to read the fields or to add one: these are the session's own and the turn's.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []

    @contextmanager
    def named(self, hooks: Any, coordinator: Any | None, turn_id: str) -> Iterator[None]:
        """Name the turn for as long as it runs; a registry that cannot, or refuses, is no reason for it to fail."""
        self._ids.append(turn_id)
        self._write(hooks, coordinator)
        try:
            yield
        finally:
            self._ids.remove(turn_id)
            self._write(hooks, coordinator)

    def _write(self, hooks: Any, coordinator: Any | None) -> None:
        set_fields = getattr(hooks, "set_default_fields", None)
        if set_fields is None or coordinator is None:
            return
        turn = {"turn_id": self._ids[0]} if len(self._ids) == 1 else {}
        try:
            set_fields(session_id=coordinator.session_id, parent_id=coordinator.parent_id, **turn)
        except Exception:
            logger.warning("events of tools, contexts and hooks do not name the turn", exc_info=True)


def take_turn_id(coordinator: Any | None) -> str | None:
    """Return the turn id that the application left for this turn, and remove it: the next turn needs its own."""
    state = getattr(coordinator, "session_state", None)
    given = state.pop(TURN_ID, None) if isinstance(state, dict) else None
    return given if isinstance(given, str) and given else None


def _new_id() -> str:
    return uuid.uuid4().hex
