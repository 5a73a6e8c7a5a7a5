"""Lay out a question so that the important parts are visible: who asks, the choices, and the line to answer in.

The module's text gives way to these: it is cut to the available height, and the cut is shown. Each row of a module's
text stands behind a mark of Paddock's, so that no row of it passes for a part of the frame, an option, or a question of
Paddock's own, whose marks are different. This file draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from paddock.cli.terminal.rows import cells, clip, fold
from paddock.text import escape

_MAX_CHARACTERS: Final = 4000  # of a question; a person reads no more
_MAX_OPTION_CHARACTERS: Final = 200
_MAX_OPTION_ROWS: Final = 8  # of one option
_MIN_OPTION_ROWS: Final = 4  # of all options, before the module's text gets any
_MIN_FRAME_ROWS: Final = 4  # of the module's text and the end of its frame, before there are more options
_AGAIN: Final = "not one of these; "
_SPARE: Final = 1  # row for the answer, where its prompt is too long for one row
_TIGHT: Final = 6  # rows of a terminal below which none is spared

Safe = Callable[[str], str]


class Option(NamedTuple):
    """An option, and the key to type for it."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question: Paddock writes `title` and `prompts` (the same prompt in ever fewer words), the asker the rest.

    If not all options fit on the screen, the first are shown; `prompts` gets their number. `left_out` are those that
    are not even among these. `is_ours`: Paddock asks, no module. `is_again`: the typed text was no answer.
    """

    title: str
    text: str
    options: Sequence[Option]
    prompts: Callable[[int], Sequence[str]]
    left_out: int = 0
    is_ours: bool = False
    is_again: bool = False

    @classmethod
    def of_ours(cls, lines: Iterable[str], options: Sequence[Option], *prompts: str) -> Self:
        """Return a question of Paddock's; a name in one of its lines cannot imitate another row."""
        text = "\n".join(map(escape, lines))
        return cls("Paddock asks, not a module", text, options, lambda count: prompts, is_ours=True)


class _Marks(NamedTuple):
    top: str
    side: str
    bottom: str


_OURS: Final = _Marks("╔══ ", "║ ", "╚══ ")
_OF_MODULES: Final = _Marks("┌── ", "│ ", "└── ")
_OURS_IN_ASCII: Final = _Marks("#=# ", "# ", "#=# ")
_OF_MODULES_IN_ASCII: Final = _Marks("+-- ", "| ", "+-- ")


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of a question, and after them those that end in the place for the answer."""

    title: str
    frame: tuple[str, ...]
    options: tuple[str, ...]
    ending: tuple[str, ...]
    shown_options: int


def lay_out(
    question: Question,
    width: int,
    height: int,
    *,
    safe: Safe,
    in_ascii: bool = False,
) -> Layout:
    """Return the rows of a question for a terminal of this size; `safe` makes text safe to show."""
    ours, of_modules = (_OURS_IN_ASCII, _OF_MODULES_IN_ASCII) if in_ascii else (_OURS, _OF_MODULES)
    marks = ours if question.is_ours else of_modules
    width = max(1, width - 1)  # the last column is where terminals differ
    height = max(2, height)
    options = question.options[: max(1, height)]
    ending = _ending(question, len(options), width, max(1, height // 5), safe)
    left = height - len(ending) - (_SPARE if height >= _TIGHT else 0)
    has_title = left > 1
    left -= has_title

    lines = [safe(line) for line in question.text[:_MAX_CHARACTERS].splitlines()]
    asked = [row for line in lines for row in fold(line, width, first=marks.side, rest=marks.side)]
    total = len(question.options) + question.left_out
    least = min(len(asked) + 1, _MIN_FRAME_ROWS, max(0, left - min(total, _MIN_OPTION_ROWS)))
    room = max(1, left - least)  # for options
    shown = options if total <= room else options[: max(1, room - 1)]
    wanted = max(least, min(len(asked) + 1, left // 2))  # for the frame, if the options fit in the rest
    rows = _option_rows(shown, width, max(left - wanted, len(shown)), safe)
    if left_out := total - len(shown):
        ending = _ending(question, len(shown), width, len(ending), safe)
        rows = (*rows, clip(f"  {left_out} more options are not shown", width))[:room]
    return Layout(
        title=clip(marks.top + safe(question.title), width) if has_title else "",
        frame=_frame(question.text, asked, marks, max(0, left - len(rows)), width),
        options=rows,
        ending=ending,
        shown_options=len(shown),
    )


def _frame(
    text: str,
    asked: Sequence[str],
    marks: _Marks,
    room: int,
    width: int,
) -> tuple[str, ...]:
    """Return the rows of the module's text and the frame's end, which shows how much was cut."""
    if len(asked) <= room and len(text) <= _MAX_CHARACTERS:
        return (*asked, marks.bottom.rstrip())[:room]
    shown = asked[: max(1, room - 1)]
    hidden = len(text) - sum(len(row) - len(marks.side) + 1 for row in shown)
    return (*shown, clip(f"{marks.bottom}{max(1, hidden)} characters are not shown", width))[:room]


def _ending(
    question: Question,
    count: int,
    width: int,
    rows: int,
    safe: Safe,
) -> tuple[str, ...]:
    """Return the longest of the prompts that takes no more rows than these."""
    variants = [safe(prompt) for prompt in question.prompts(count)]
    ending = _first_to_fit(variants, width, rows)
    if question.is_again:  # in no more rows, so that the same options fit
        ending = _first_to_fit([*(_AGAIN + prompt for prompt in variants), *variants], width, len(ending))
    return (*ending[:-1], f"{ending[-1]} ")


def _first_to_fit(variants: Sequence[str], width: int, rows: int) -> list[str]:
    for prompt in variants:
        folded = fold(prompt, width)
        if len(folded) <= rows:
            return folded
    return [clip(variants[-1], max(1, width - 2))]


def _option_rows(options: Sequence[Option], width: int, room: int, safe: Safe) -> tuple[str, ...]:
    """Return the rows of all options, each folded into as many rows as all of them can have, and cut after those."""
    wide = max((len(option.key) for option in options), default=0)
    leads = [f"  {option.key:{wide}} " for option in options]
    texts = [safe(_shortened(option.text)) for option in options]
    folded = [
        fold(text, width, first=lead, rest=f"{'..':>{len(lead) - 1}} ") for lead, text in zip(leads, texts, strict=True)
    ]
    for most in range(_MAX_OPTION_ROWS, 1, -1):
        if sum(min(len(rows), most) for rows in folded) <= room:
            return tuple(row for rows in folded for row in _cut(rows, most, width))
    return tuple(lead + clip(text, max(1, width - cells(lead))) for lead, text in zip(leads, texts, strict=True))


def _cut(rows: Sequence[str], most: int, width: int) -> Sequence[str]:
    """Return the first of these rows; the last one shows that there are more."""
    return rows if len(rows) <= most else (*rows[: most - 1], clip(rows[most - 1], width - 1) + "…")


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_OPTION_CHARACTERS else f"{text[:_MAX_OPTION_CHARACTERS]}…"
