"""An orchestrator that times its import of the contracts, and what it reads of the session without waiting."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

_BEFORE = time.perf_counter_ns()
from amplifier_core import HookResult, ModuleCoordinator, ToolResult  # noqa: E402

_IMPORT_NS = time.perf_counter_ns() - _BEFORE
_READS = 2000

__amplifier_module_type__ = "orchestrator"
__all__ = ["HookResult", "ModuleCoordinator", "ToolResult", "mount"]


class Reading:
    """Answers with nanoseconds."""

    def __init__(self, coordinator: Any) -> None:
        self._reads: dict[str, Callable[[], object]] = {
            "session_id": lambda: coordinator.session_id,
            "config": lambda: coordinator.config["session"],
            "is_cancelled": lambda: coordinator.cancellation.is_cancelled,
            "get_capability": lambda: coordinator.get_capability("session.working_dir"),
            "tools": lambda: coordinator.get("tools"),
            "attribute": lambda: coordinator.todo_state,
        }
        coordinator.todo_state = []

    async def execute(self, prompt: str, **session: Any) -> str:
        """Return what the import took, and each kind of read on average, as JSON."""
        return json.dumps({"import": _IMPORT_NS, **{name: _average(read) for name, read in self._reads.items()}})


def _average(read: Callable[[], object]) -> float:
    before = time.perf_counter_ns()
    for _ in range(_READS):
        read()
    return (time.perf_counter_ns() - before) / _READS


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the orchestrator."""
    await coordinator.mount("orchestrator", Reading(coordinator))
