"""Show the progress of fetching and installing: bars on a terminal, elsewhere a line as each phase begins and ends.

Any thread may report, at any point: reporting never raises, and a report after the context was left is ignored. While a
question is open no progress is drawn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Self

from paddock.cli.terminal.render import Screen
from paddock_sources.errors import without_credentials
from paddock_sources.progress import Phase, ProgressStep

_PERIOD: Final = 0.1  # seconds between two drawings, unless another phase begins
_MAX_BARS: Final = 6
_BAR_CELLS: Final = 10


@dataclass(frozen=True, slots=True)
class _Work:
    """The work on one subject: the progress of its phase, its start, and the earlier phases."""

    step: ProgressStep
    since: float
    phases: set[Phase] = field(default_factory=set)


class FetchProgress:
    """Shows reports on `screen` while it is entered; `clock` is a monotonic one."""

    def __init__(self, screen: Screen, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self._lock = threading.Lock()
        self._works: dict[str, _Work] = {}
        self._drawn_at = float("-inf")
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            for work in self._works.values():
                self._end(work)
            self._works.clear()
            self._draw()

    def step(self, step: ProgressStep) -> None:
        """Show a step of progress."""
        with self._lock:
            if self._is_over:
                return
            work = self._works.get(step.subject)
            if work is None or step.phase not in work.phases:
                self._begin(step, work)
            elif self._screen.is_terminal:
                self._works[step.subject] = replace(work, step=step)
                if self._clock() - self._drawn_at >= _PERIOD:
                    self._draw()
            elif step.phase == work.step.phase:  # other work may be behind; a subject reported as ended has ended
                self._works[step.subject] = replace(work, step=step)

    def finished(self, subject: str) -> None:
        """Show no more of a subject."""
        with self._lock:
            work = self._works.pop(subject, None)
            if work is not None:
                self._end(work)
                self._draw()

    def _begin(self, step: ProgressStep, before: _Work | None) -> None:
        phases: set[Phase] = set()
        if before is not None:
            self._end(before)
            phases = before.phases
        phases.add(step.phase)
        self._works[step.subject] = _Work(step, self._clock(), phases)
        if not self._screen.is_terminal:
            self._screen.note(f"{step.phase} {without_credentials(step.subject)}")
        self._draw()

    def _end(self, work: _Work) -> None:
        if not self._screen.is_terminal:
            step = work.step
            counted = _count(step) if step.done > 0 else ""  # otherwise it began without a count
            text = f"{step.phase} {without_credentials(step.subject)} took {self._clock() - work.since:.1f} s"
            self._screen.note(f"{text}: {counted}" if counted else text)

    def _draw(self) -> None:
        self._drawn_at = self._clock()
        if not self._screen.is_terminal:
            return
        steps = [work.step for work in self._works.values()]
        bars = []
        for step in steps[:_MAX_BARS]:
            subject = without_credentials(step.subject)
            # Of an address without its scheme: rows are short, and the end is the most specific.
            bars.append((f"{step.phase} {subject.partition('://')[2] or subject}", _measure(step)))
        if len(steps) > _MAX_BARS:
            bars.append((f"and {len(steps) - _MAX_BARS} more", ""))
        self._screen.show_bars(bars)


def _measure(step: ProgressStep) -> str:
    if step.total <= 0:
        return _count(step)
    # Of characters that are one cell wide in every font, and in every encoding.
    full = min(max(0, step.done), step.total) * _BAR_CELLS // step.total
    return f"[{'#' * full}{'-' * (_BAR_CELLS - full)}] {_count(step)}"


def _count(step: ProgressStep) -> str:
    if step.done <= 0 and step.total <= 0:
        return ""
    of_all = f" of {step.total}" if step.total > 0 else ""
    return f"{step.done}{of_all} {step.unit}".rstrip()
