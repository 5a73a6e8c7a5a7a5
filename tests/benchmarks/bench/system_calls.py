"""How many system calls a module takes, in every process that has a part in it, as `strace` counts them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.row import NotMeasured, Row, Target
from bench.sampling import Effort

BEGIN: Final = "/paddock-bench-begin"
END: Final = "/paddock-bench-end"

_MODULES: Final = 5
_SECONDS: Final = 100  # for some seconds of work; hit only by a hang
_CALL: Final = re.compile(r"\d+ +(\w+)\(")
# By these a process waits. How often it does depends on what else the machine does.
_WAITS: Final = frozenset(
    {"epoll_pwait", "epoll_wait", "futex", "poll", "ppoll", "restart_syscall", "select", "wait4", "waitid"}
)


async def measure_system_calls(effort: Effort) -> list[Row]:
    """Count what further modules take from the start over one call to the end, as a mean."""
    count = effort.of(_MODULES, 1)
    calls = await asyncio.to_thread(_count, count)
    return [
        Row(
            "system calls of a module",
            "From its start over one call to its end, by host, template, init and worker, without waits.",
            "",
            calls / count,
            target=Target(500),
        )
    ]


def _count(modules: int) -> int:
    tracer = shutil.which("strace")
    if tracer is None:
        raise NotMeasured("`strace` is not installed")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "calls"
        child = Path(__file__).with_name("system_calls_child.py")
        command = [tracer, "-f", "-qq", "-o", str(log), sys.executable, str(child), str(modules)]
        environ = {**os.environ, "PYTHONPATH": str(child.parents[1])}
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS
        )
        if done.returncode != 0:
            raise NotMeasured(f"a session cannot be traced here: {' '.join(done.stderr.split())[-300:]}")
        return _between(log.read_text(errors="replace").splitlines())


def _between(lines: Iterable[str]) -> int:
    """Return how many calls were begun between the two marks."""
    count, is_between = 0, False
    for line in lines:
        if f'"{BEGIN}"' in line:
            is_between = True
        elif f'"{END}"' in line:
            return count
        elif is_between and " resumed>" not in line:
            called = _CALL.match(line)
            count += called is not None and called[1] not in _WAITS
    raise ValueError("the marks are missing in what `strace` wrote")
