"""A stand-in for the hook registry that writes down what is emitted and lets everything go on."""

from __future__ import annotations

from copy import copy
from typing import Any

from paddock_sdk.contract.models import HookResult

__all__ = ["EventRecorder"]


class EventRecorder:
    """Records events as (name, data) pairs, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def emit(self, event: str, data: Any) -> HookResult:
        """Record one event; what is recorded is a shallow copy of the data."""
        self.events.append((event, copy(data)))
        return HookResult(action="continue")

    record = emit

    def clear(self) -> None:
        """Forget what was recorded."""
        self.events.clear()

    def get_events(self, event_type: str | None = None) -> list[tuple[str, Any]]:
        """Return the recorded events, or those of one name."""
        return [event for event in self.events if event_type is None or event[0] == event_type]
