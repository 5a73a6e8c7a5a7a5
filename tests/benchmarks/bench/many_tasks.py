"""A run of tasks with its ledger on the disk, beside the same run whose records wait for no disk."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

from bench.affinity import every_core
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.stage import SMALL_PLAN, tasks_file
from paddock.batch import run
from paddock.batch.ledger import Lines

_ROUNDS: Final = 7
_TASKS: Final = 16
_AT_ONCE: Final = 8
_TARGET: Final = Target(1.05)


async def measure_many_tasks(effort: Effort) -> list[Row]:
    """Measure a run of small tasks; what it costs to claim one and to keep its result is the difference."""
    with every_core(), tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # on a disk: /tmp may be memory
        number = effort.of(_TASKS)
        cases = {how: partial(_run, Path(folder), number, how == "synced") for how in ("synced", "written")}
        samples: Samples = await interleave(cases, effort.of(_ROUNDS, 1))
    about = f"{number} tasks with a scripted model, {_AT_ONCE} at once, beside the same without a sync of any record."
    return [Row.compared("a task with its ledger", about, "ms", samples, ("synced", "written"), _TARGET)]


async def _run(folder: Path, number: int, is_synced: bool) -> list[float]:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        tasks, out = tasks_file(Path(name), number), Path(name, "out")
        with patch.object(Lines, "sync", Lines.sync if is_synced else _unsynced):
            times = [time.perf_counter_ns() async for _ in run(SMALL_PLAN, tasks, out=out, concurrency=_AT_ONCE)]
    return [(times[-1] - times[0]) / 1e6 / (number - 1)]  # without the trial before the first


async def _unsynced(lines: Lines) -> None:
    pass
