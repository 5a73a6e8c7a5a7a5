"""Tell a person, once a command is over, what modules were refused and which lines would allow it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from .render import Screen

_MAX_LINES: Final = 20  # a person reads them after the run; scripts get all


def tell_denials(screen: Screen, denials: Iterable[Mapping[str, object]]) -> None:
    """Write a line for each different denial, of which each is told as `Denial.as_dict` has it."""
    lines = list(dict.fromkeys(map(_line, denials)))
    for line in lines[:_MAX_LINES]:
        screen.warning(line)
    if len(lines) > _MAX_LINES:
        screen.note(f"{len(lines) - _MAX_LINES} more denials are not shown; `--json` has them")


def _line(denial: Mapping[str, object]) -> str:
    told = f"`{denial['caller']}` was not let {denial['operation']} `{denial['target']}`"
    if denial.get("reason"):
        told += f": {denial['reason']}"
    if denial.get("grant"):
        return f"{told}; to allow it, add to its entry: {denial['grant']}"
    return f"{told}; no grant allows it"
