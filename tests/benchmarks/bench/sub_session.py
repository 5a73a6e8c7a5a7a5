"""A sub-session of ten modules, from the call that starts it to its orchestrator, all of them shut in and mounted.

On every core there is: what starts side by side is what is measured.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.affinity import every_core
from bench.row import Row
from bench.sampling import Effort
from bench.yardstick import bare_interpreter
from paddock import Session

_ROUNDS: Final = 20
_TOOLS: Final = 6
_TARGET: Final = 150.0  # ms
_MODULES: Final = Path(__file__).resolve().parent.parent / "modules"


async def measure_sub_session(effort: Effort) -> list[Row]:
    """Measure the start of a sub-session, in a session whose template has forked before."""
    samples = []
    with every_core(), tempfile.TemporaryDirectory() as folder:
        async with Session(_plan(), working_dir=folder, trust_plan=True) as session:
            heard: list[int] = []

            async def on_start(event: str, data: dict[str, Any]) -> None:
                heard.append(time.perf_counter_ns())

            session.coordinator.hooks.register("session:start", on_start)
            spawn = session.coordinator.get_capability("session.spawn")
            for _ in range(effort.of(_ROUNDS)):
                before = time.perf_counter_ns()
                await spawn(agent_name="self", instruction="nothing", parent_session=session)
                samples.append((heard.pop() - before) / 1e6)
        yardstick = await bare_interpreter(effort)
    about = "From the call that spawns it until its session starts, all ten modules mounted in sandboxes."
    return [yardstick.row("start of a sub-session of ten modules", about, "ms", median(samples), _TARGET)]


def _plan() -> dict[str, Any]:
    def entry(module: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"module": module, "source": str(_MODULES / module), "config": config or {}}

    return {
        "session": {"orchestrator": entry("loop-reading"), "context": "context-simple"},
        "providers": [entry("provider-turns")],
        "tools": [entry("tool-trivial", {"name": f"trivial_{number}"}) for number in range(_TOOLS)],
        "hooks": [entry("hooks-nod", {"handlers": 1, "event": "tool:pre"})],
        "agents": {"other": {"description": "so that there are sub-sessions at all"}},
    }
