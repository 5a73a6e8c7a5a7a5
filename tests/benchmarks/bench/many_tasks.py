"""A run of tasks with its ledger on the disk, beside the same run whose records wait for no disk."""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from bench.affinity import every_core
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from paddock.batch import run
from paddock.batch.ledger import Lines

_ROUNDS: Final = 7
_TASKS: Final = 16
_AT_ONCE: Final = 8
_TARGET: Final = Target(1.05)
_PLAN: Final[dict[str, Any]] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"fallback": "You said: {prompt}"}}],
}


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
        tasks, out = _written(Path(name), number), Path(name, "out")
        with patch.object(Lines, "sync", Lines.sync if is_synced else _unsynced):
            times = [time.perf_counter_ns() async for _ in run(_PLAN, tasks, out=out, concurrency=_AT_ONCE)]
    return [(times[-1] - times[0]) / 1e6 / (number - 1)]  # without the trial before the first


def _written(folder: Path, number: int) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps({"id": f"t{one}", "prompt": "hello"}) + "\n" for one in range(number)))
    return path


async def _unsynced(lines: Lines) -> None:
    pass
