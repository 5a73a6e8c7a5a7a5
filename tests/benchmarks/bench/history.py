"""What recorded runs found, a line each: the figure of each row that a target is about.

The file is kept in the repository, so that a change of a figure has a date and an author.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.row import Gap, Row


def last_recorded(path: Path) -> Mapping[str, float]:
    """Return for each row what the last run found that was recorded with it; nothing before the first record."""
    return {what: figure for run in _runs(path) for what, figure in run["rows"].items()}


def record(found: Sequence[Row | Gap], path: Path) -> None:
    """Append a run."""
    rows = {row.what.strip(): round(row.compares_by, 4) for row in found if isinstance(row, Row)}
    run = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "cores": os.cpu_count(),
        "rows": rows,
    }
    lines = ",\n".join(map(json.dumps, [*_runs(path), run]))
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _runs(path: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return runs
