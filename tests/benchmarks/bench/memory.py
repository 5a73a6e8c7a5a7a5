"""What each further module costs in memory that nothing else shares, after it has collected its garbage.

From Python 3.12 on, a template shares more with its fifth worker and all later ones than with the first four. A further
module is one of those.
"""

from __future__ import annotations

import sys
from statistics import mean
from typing import Final

import psutil

from bench.row import Row, Target
from bench.sampling import Effort
from bench.stage import Stage

_MODULES: Final = 10
_FIRST: Final = 4
_MIB: Final = 1 << 20


async def measure_memory(effort: Effort) -> list[Row]:
    """Measure a worker and its init, as means over several alive at once."""
    async with Stage.open() as stage:
        return await _measure_memory(stage, effort.of(_MODULES))


async def _measure_memory(stage: Stage, count: int) -> list[Row]:
    workers, inits = [], []
    modules = []
    for number in range(_FIRST + count):
        name = f"resident_{number}"
        modules.append(await stage.start("tool", "tool-trivial", {"name": name}))
        await stage.tool(name).execute({"collect": True})
    for module in modules[_FIRST:]:
        process = module.supervisor.process
        assert process is not None, "a module that has just answered is alive"
        workers.append(psutil.Process(process.pid).memory_full_info().uss / _MIB)
        inits.append(psutil.Process(process.init_pid).memory_full_info().uss / _MIB)
    worker, init = mean(workers), mean(inits)
    return [
        Row("memory of a further module (USS): worker", "What a worker shares with no other process.", "MiB", worker),
        Row("memory of a further module (USS): its init", "What its first process shares with no other.", "MiB", init),
        Row(
            "memory of a further module (USS): both",
            "What one module more takes, after it has collected its garbage.",
            "MiB",
            worker + init,
            target=Target(5.5 if sys.version_info < (3, 12) else 3.5),
        ),
    ]
