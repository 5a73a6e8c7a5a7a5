"""A picture of a session: a row for its turns and one for each module, with its processes, calls and refusals.

However many calls there are, a row has no more marks than it has places: those that fall on each other are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from paddock.report.facts import Call, Facts, ModuleFacts
from paddock.report.html import Markup, tag

_PLACES: Final = 1000
_ROW: Final = 20
_KINDS: Final = ("turn", "life", "died", "call", "failed", "open", "refused")  # of marks, as they are drawn
_LOW: Final = ("call", "failed", "open")  # half as high as the others
_MOST_ROWS: Final = 60
_LEGEND: Final = "The band is a module's process, on it the calls of its tools; red: failed, refused or died."


@dataclass(frozen=True, slots=True)
class _Mark:
    """Something that took from `began` to `ended`; None: until the end of the picture."""

    kind: str
    text: str
    began: datetime
    ended: datetime | None


def timeline(facts: Facts) -> Markup:
    """Return the picture, with its labels and its scale."""
    rows: list[tuple[str, list[_Mark]]] = []
    if facts.turns:
        rows.append(("turns", [_Mark("turn", turn.outcome, turn.began, turn.ended) for turn in facts.turns]))
    rows += [(one.name, [*_marks_of(one, facts.calls_of(one))]) for one in facts.modules[:_MOST_ROWS]]
    times = [facts.began, facts.ended or facts.began]
    for _, marks in rows:
        times += [mark.began for mark in marks]
        times += [mark.ended for mark in marks if mark.ended is not None]
    scale = _Scale(min(times), max((max(times) - min(times)).total_seconds(), 0.001))
    left_out = len(facts.modules) - _MOST_ROWS
    more = tag("p", f"{left_out} more modules have no row.") if left_out > 0 else ""
    span = tag("p", f"From {scale.first:%Y-%m-%d %H:%M:%S} UTC, {scale.seconds:.1f} s. ", _LEGEND, class_="quiet")
    return tag("section", tag("h2", "Timeline"), *(_row(*row, scale) for row in rows), more, span)


def _marks_of(module: ModuleFacts, calls: Sequence[Call]) -> Iterator[_Mark]:
    for life in module.lives:
        kind = "life" if life.was_ordinary else "died"
        yield _Mark(kind, life.message or "runs", life.began, life.ended)
    for call in calls:
        kind = {"ended": "call", "unknown": "open"}.get(call.outcome, "failed")
        yield _Mark(kind, f"{call.tool}: {call.outcome}", call.began, call.ended)
    for refusal in module.refusals:
        text = f"refused: {refusal.operation} {refusal.target}"
        yield _Mark("refused", text, refusal.at, refusal.at)


@dataclass(frozen=True, slots=True)
class _Scale:
    first: datetime
    seconds: float

    def place(self, at: datetime | None) -> int:
        if at is None:
            return _PLACES
        share = (at - self.first).total_seconds() / self.seconds
        return round(min(max(share, 0.0), 1.0) * _PLACES)


def _row(label: str, marks: Sequence[_Mark], scale: _Scale) -> Markup:
    drawn = []
    for kind in _KINDS:
        height = _ROW // 2 if kind in _LOW else _ROW
        of_kind = [mark for mark in marks if mark.kind == kind]
        for begin, end, text in _merged(of_kind, scale):
            place = {"x": begin, "y": _ROW - height, "width": end - begin, "height": height}
            drawn.append(tag("rect", tag("title", text), class_=kind, **place))
    picture = tag("svg", *drawn, viewBox=f"0 0 {_PLACES} {_ROW}", preserveAspectRatio="none", height=_ROW)
    return tag("div", tag("span", label), picture, class_="row")


def _merged(marks: Sequence[_Mark], scale: _Scale) -> list[tuple[int, int, str]]:
    """Return begin, end and text of each mark, those that fall on each other as one."""
    drawn: list[tuple[int, int, str]] = []
    number = 0
    for mark in sorted(marks, key=lambda one: one.began):
        begin, end = scale.place(mark.began), scale.place(mark.ended)
        if drawn and begin <= drawn[-1][1]:
            number += 1
            first, until, _ = drawn[-1]
            drawn[-1] = (first, max(until, end), f"{number} that fall on each other")
        else:
            number = 1
            drawn.append((begin, max(end, begin + 2), mark.text))
    return drawn
