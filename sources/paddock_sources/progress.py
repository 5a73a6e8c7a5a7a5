"""Progress reports of work that takes a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Phase = Literal["looking up", "fetching", "unpacking", "resolving dependencies of", "installing", "building"]


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """A step of progress: `done` of `total` in `unit` (objects, files, packages), 0 where that is not known."""

    subject: str
    phase: Phase
    done: int = 0
    total: int = 0
    unit: str = ""


class Progress(Protocol):
    """Called with each step, from any thread; returns at once and never raises."""

    def step(self, step: ProgressStep) -> None:
        """Take note that something has got that far."""
        ...

    def finished(self, subject: str) -> None:
        """Take note that nothing more is done about a subject."""
        ...


class SilentProgress:
    """Ignores all steps."""

    def step(self, step: ProgressStep) -> None:
        pass

    def finished(self, subject: str) -> None:
        pass
