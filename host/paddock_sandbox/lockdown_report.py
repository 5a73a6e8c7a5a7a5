"""The report of a lockdown, as the worker sends it and the host reads it, which loads nothing that locks down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class LockdownReport:
    """The result: the level, the steps taken, in order, and the protections that Landlock gives here."""

    level: IsolationLevel
    steps: tuple[str, ...]
    protections: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"level": self.level, "steps": list(self.steps), "protections": list(self.protections)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LockdownReport:
        """Rebuild a report from plain data."""
        return cls(data["level"], tuple(data["steps"]), tuple(data["protections"]))
