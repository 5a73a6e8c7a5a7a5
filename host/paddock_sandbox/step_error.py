"""The error of everything that confines a process: which step the kernel refused, and its reason."""

from __future__ import annotations


class StepError(OSError):
    """Raised when a step of a confinement failed; `step` names it and what it was about."""

    def __init__(self, step: str, number: int | None, reason: str | None) -> None:
        super().__init__(number or 0, f"{step}: {reason}")
        self.step = step
