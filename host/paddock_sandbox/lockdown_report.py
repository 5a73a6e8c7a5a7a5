"""The report of a lockdown, as the worker sends it and the host reads it, which loads nothing that locks down."""

from __future__ import annotations

from dataclasses import dataclass

from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class LockdownReport:
    """The result: the level, the steps taken, in order, and the protections that Landlock gives here."""

    level: IsolationLevel
    steps: tuple[str, ...]
    protections: tuple[str, ...] = ()
