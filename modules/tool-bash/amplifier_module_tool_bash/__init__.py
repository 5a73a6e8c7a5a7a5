"""Mount three tools: `bash` runs a command, `bash_output` and `bash_kill` are for those in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .bash import Bash
from .job_tools import BashKill, BashOutput
from .jobs import Jobs
from .settings import Settings
from .shell import Shell

__all__ = ["Bash", "BashKill", "BashOutput", "Jobs", "Settings", "Shell", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Mount the tools, and return the function that ends the jobs that still run.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    settings = Settings.of(config or {})
    shell, jobs = Shell(coordinator, settings), Jobs(settings)
    for tool in (Bash(shell, jobs, settings), BashOutput(jobs, settings), BashKill(jobs)):
        await coordinator.mount("tools", tool, name=tool.name)
    return jobs.end_all
