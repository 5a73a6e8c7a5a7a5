"""A session as people run it: an orchestrator that streams, a context, a provider, three tools and five hooks."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import psutil

from bench.affinity import every_core
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.yardstick import in_bare_interpreters, pass_block
from paddock import Session

_ROUNDS: Final = 8
_MIB: Final = 1 << 20
_PLAN: Final[dict[str, Any]] = {
    "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
    "providers": [{"module": "provider-mock"}],
    "tools": [
        {"module": "tool-bash"},
        {"module": "tool-filesystem", "permissions": "workspace"},
        {"module": "tool-todo"},
    ],
    "hooks": [
        {"module": "hooks-logging", "permissions": "workspace"},
        *({"module": f"hooks-{name}"} for name in ("approval", "redaction", "status-context", "todo-reminder")),
    ],
}


async def measure_bundle(effort: Effort) -> list[Row]:
    """Measure the session's start on every core, and the memory of all its processes after a turn."""
    memory: list[float] = []
    processes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        plan.write_text(json.dumps(_PLAN), encoding="utf-8")

        async def start() -> list[float]:
            before = time.perf_counter_ns()
            async with Session(plan, working_dir=folder, trust_plan=True) as session:
                taken = (time.perf_counter_ns() - before) / 1e6
                await session.execute("hello")
                below = psutil.Process().children(recursive=True)
                memory.append(sum(process.memory_full_info().pss for process in below) / _MIB)
                processes.append(len(below))
            return [taken]

        with every_core():
            samples = await interleave({"start": start, "pass": pass_block}, effort.of(_ROUNDS))
    return [
        Row.compared(
            "start of a session of eleven modules, to `python -c pass`",
            "An orchestrator that streams, a context, a provider, three tools, five hooks, up to the first prompt.",
            "ms",
            samples,
            ("start", "pass"),
            in_bare_interpreters(0.4),
        ),
        Row(
            "memory of that session (PSS)",
            "All processes below the host after a turn; a page that several share counts for each in part.",
            "MiB",
            sorted(memory)[len(memory) // 2],
            target=Target(120.0),
        ),
        Row(
            "  processes of that session", "Two for each module, and those that serve all of them.", "", max(processes)
        ),
    ]
