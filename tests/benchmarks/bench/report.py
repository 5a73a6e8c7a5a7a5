"""The result for people, as a table, and for programs, as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.row import Gap, Row

_HEAD = ("what", "ours", "reference", "unit", "ratio", "target", "", "last")


def table(found: Sequence[Row | Gap], last: Mapping[str, float]) -> str:
    """Return the rows as aligned text, each with its sentence below; what has no figure says why in place of one.

    `last` has what was recorded last: it is beside a row's ratio, or beside the figure itself where there is no ratio.
    """
    cells = [_cells(row, last) for row in found if isinstance(row, Row)]
    widths = _widths((_HEAD, *cells))
    lines = [
        f"{_shown(_cells(row, last), widths)}\n    {row.measures}"
        if isinstance(row, Row)
        else f"{row.what.ljust(widths[0])}  {row}".rstrip()
        for row in found
    ]
    return "\n".join([*_heading(_HEAD, widths), *lines])


def aligned(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as a table: the first column to the left, all others to the right."""
    widths = _widths((head, *lines))
    return "\n".join([*_heading(head, widths), *(_shown(line, widths) for line in lines)])


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _heading(head: Sequence[str], widths: Sequence[int]) -> tuple[str, str]:
    return _shown(head, widths), _shown(["-" * width for width in widths], widths)


def _shown(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        text.rjust(width) if column else text.ljust(width)
        for column, (text, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()


def summary(found: Sequence[Row | Gap]) -> str:
    """Return one sentence each: which targets are missed, what was not measured, and what failed."""
    missed = [
        f"{row.what.strip()}: {row.compares_by:.2f}, target {row.target}"
        for row in found
        if isinstance(row, Row) and row.verdict == "MISSED"
    ]
    gaps = [gap for gap in found if isinstance(gap, Gap)]
    sentences = [_counted("missed", missed) or "No target is missed."]
    sentences.append(_counted("not measured", [gap.what for gap in gaps if not gap.is_error]))
    sentences.append(_counted("failed", [gap.what for gap in gaps if gap.is_error]))
    return "\n".join(filter(None, sentences))


def write_json(found: Sequence[Row | Gap], path: Path) -> None:
    """Write the rows, and where they were measured, to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    path.write_text(json.dumps({"machine": machine, "rows": [row.as_dict() for row in found]}, indent=2) + "\n")


def _cells(row: Row, last: Mapping[str, float]) -> tuple[str, ...]:
    before = last.get(row.what.strip())
    return (
        row.what,
        figure(row.ours),
        figure(row.reference),
        row.unit,
        f"{row.ratio:.2f}" if row.ratio is not None else "",
        str(row.target) if row.target is not None else "",
        row.verdict,
        figure(before) if row.ratio is None or before is None else f"{before:.2f}",
    )


def figure(value: float | None) -> str:
    """Return a figure as people read it, with three digits that count."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _counted(verb: str, names: Sequence[str]) -> str:
    return f"{len(names)} {verb}: {'; '.join(names)}." if names else ""
