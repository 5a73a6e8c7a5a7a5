"""The result for people, as a table, and for programs, as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from bench.row import Row

_HEAD = ("what", "ours", "reference", "unit", "ratio", "target", "")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned text."""
    lines = [
        (
            row.what,
            _figure(row.ours),
            _figure(row.reference),
            row.unit,
            f"{row.ratio:.2f}" if row.ratio is not None else "",
            str(row.target) if row.target is not None else "",
            row.verdict,
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (_HEAD, *lines)) for column in range(len(_HEAD))]

    def shown(line: Sequence[str]) -> str:
        cells = [
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([shown(_HEAD), shown(["-" * width for width in widths]), *map(shown, lines)])


def summary(rows: Sequence[Row]) -> str:
    """Return one sentence: whether every target is met, or which are not."""
    missed = [row for row in rows if row.verdict == "MISSED"]
    if not missed:
        return "Every target is met."
    names = "; ".join(
        f"{row.what}: {row.ratio if row.ratio is not None else row.ours:.2f}, target {row.target}" for row in missed
    )
    return f"{len(missed)} missed: {names}."


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Write the rows, and where they were measured, to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    path.write_text(json.dumps({"machine": machine, "rows": [row.as_dict() for row in rows]}, indent=2) + "\n")


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
