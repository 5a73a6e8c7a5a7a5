"""A run of tasks on one node of a Ray cluster on this machine, beside the same run without Ray."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.affinity import every_core
from bench.row import NotMeasured, Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.stage import SMALL_PLAN, tasks_file
from paddock.batch import run as run_here
from paddock.ray import run as run_on_nodes

_ROUNDS: Final = 5
_TASKS: Final = 40
_QUICK_TASKS: Final = 6
_AT_ONCE: Final = 2  # from the first task on: here, too, a run begins with as many as there are processors
_WARMING: Final = 2 * _AT_ONCE  # results that do not count
_TARGET: Final = Target(1.11)  # of the time; 0.9 of the tasks a second


async def measure_ray_tasks(effort: Effort) -> list[Row]:
    """Measure a run of small tasks on a node that is there; that it is looked for and joined does not count."""
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError:
        raise NotMeasured("Ray is not installed: the extra `ray`") from None
    with every_core(), tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 2, "object_store_memory": 80_000_000, "include_dashboard": False},
        )
        ray.init(cluster.address, log_to_driver=False, logging_level="error")
        try:
            tasks = effort.of(_TASKS, _QUICK_TASKS)
            here = partial(run_here, concurrency=_AT_ONCE)
            there = partial(run_on_nodes, address=cluster.address, per_node=_AT_ONCE)
            cases = {
                "ray": partial(_run, Path(folder), there, tasks),
                "here": partial(_run, Path(folder), here, tasks),
            }
            if effort is Effort.QUICK:  # joining a node takes most of the time
                samples = Samples([{name: await case() for name, case in cases.items()}])
            else:
                samples = await interleave(cases, _ROUNDS, seconds=60)
        finally:
            ray.shutdown()
            cluster.shutdown()
    about = f"{_TASKS} tasks with a scripted model, {_AT_ONCE} at once on a warm node, beside `batch` with as many."
    return [Row.compared("a task on a Ray node", about, "ms", samples, ("ray", "here"), _TARGET)]


async def _run(folder: Path, run: Any, count: int) -> list[float]:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        plan = Path(name, "plan.json")
        plan.write_text(json.dumps(SMALL_PLAN))  # noqa: ASYNC240
        results: AsyncIterator[Any] = run(plan, tasks_file(Path(name), count), out=Path(name, "out"))
        times = []
        async for result in results:
            assert result.status == "done", result
            times.append(time.perf_counter_ns())
    return [(times[-1] - times[_WARMING]) / 1e6 / (count - 1 - _WARMING)]
