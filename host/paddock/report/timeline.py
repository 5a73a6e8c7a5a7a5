"""A picture of a session: a row for its turns and one for each module, with its processes, calls and refusals.

However many calls there are, a row has no more marks than it has places: those that fall on each other are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.report.facts import Facts, ModuleFacts
from paddock.report.html import Markup, tag

_PLACES: Final = 1000
_MOST_ROWS: Final = 60


@dataclass(frozen=True, slots=True)
class _Mark:
    began: datetime
    ended: datetime
    kind: str
    text: str


def timeline(facts: Facts) -> Markup:
    """Return the picture, with its labels and its scale."""
    first, last = _bounds(facts)
    scale = _Scale(first, max((last - first).total_seconds(), 0.001))
    turns = [
        _Mark(turn.began, turn.ended or last, "turn", f"turn {number}: {turn.outcome}")
        for number, turn in enumerate(facts.turns, 1)
    ]
    rows = [_row("turns", [turns], scale)] if turns else []
    calls: dict[str, list[_Mark]] = {}
    for call in facts.calls:
        kind = {"ended": "call", "unknown": "open"}.get(call.outcome, "failed")
        calls.setdefault(call.module, []).append(
            _Mark(call.began, call.ended or last, kind, f"{call.tool}: {call.outcome}")
        )
    shown = facts.modules[:_MOST_ROWS]
    rows += [_row(module.name, _layers(module, calls.get(module.name, []), last), scale) for module in shown]
    left_out = len(facts.modules) - len(shown)
    more = [tag("p", f"{left_out} more modules have no row.")] if left_out > 0 else []
    seconds = f"{first:%Y-%m-%d %H:%M:%S} UTC, and {scale.seconds:.1f} s from there"
    legend = (
        "The band is a module's process, on it the calls of its tools; red: failed, refused or died; amber: unknown."
    )
    return tag("section", tag("h2", "Timeline"), *rows, *more, tag("p", f"{seconds}. {legend}", class_="quiet"))


def _layers(module: ModuleFacts, calls: list[_Mark], last: datetime) -> list[list[_Mark]]:
    lives = [
        _Mark(life.began, life.ended or last, "life" if life.was_ordinary else "died", life.message or "runs")
        for life in module.lives
    ]
    refusals = [_Mark(one.at, one.at, "refused", f"refused: {one.operation} {one.target}") for one in module.refusals]
    return [lives, calls, refusals]


def _bounds(facts: Facts) -> tuple[datetime, datetime]:
    times = [facts.began, *([facts.ended] if facts.ended is not None else [])]
    for module in facts.modules:
        times += [at for life in module.lives for at in (life.began, life.ended) if at is not None]
    times += [turn.ended or turn.began for turn in facts.turns[-1:]]
    times += [call.ended or call.began for call in facts.calls[-1:]]
    return min(times), max(times)


@dataclass(frozen=True, slots=True)
class _Scale:
    first: datetime
    seconds: float

    def place(self, at: datetime) -> int:
        share = (at - self.first) / timedelta(seconds=self.seconds)
        return round(min(max(share, 0.0), 1.0) * _PLACES)


def _row(label: str, layers: Iterable[Sequence[_Mark]], scale: _Scale) -> Markup:
    height = {"turn": 20, "life": 20, "died": 20, "refused": 20}
    marks = []
    for layer in layers:
        for kind, x, width, text in _merged(layer, scale):
            tall = height.get(kind, 10)
            place = {"x": x, "y": 20 - tall, "width": width, "height": tall}
            marks.append(tag("rect", tag("title", text), class_=kind, **place))
    picture = tag("svg", *marks, viewBox=f"0 0 {_PLACES} 20", preserveAspectRatio="none", height=20)
    return tag("div", tag("span", label), picture, class_="row")


def _merged(marks: Sequence[_Mark], scale: _Scale) -> Iterable[tuple[str, int, int, str]]:
    """Return kind, place, width and text of each mark, those of a kind that fall on each other as one."""
    by_kind: dict[str, list[tuple[int, int, int, str]]] = {}
    for mark in sorted(marks, key=lambda one: one.began):
        x, end = scale.place(mark.began), scale.place(mark.ended)
        drawn = by_kind.setdefault(mark.kind, [])
        if drawn and x <= drawn[-1][1]:
            begin, until, number, _ = drawn[-1]
            drawn[-1] = begin, max(until, end), number + 1, f"{number + 1} that fall on each other"
        else:
            drawn.append((x, max(end, x + 2), 1, mark.text))
    return [(kind, x, end - x, text) for kind, drawn in by_kind.items() for x, end, _, text in drawn]
