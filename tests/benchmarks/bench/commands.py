"""Whole commands, as a person waits for them: from the start of the process to its end, on every core."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.affinity import every_core
from bench.chat import PADDOCK
from bench.row import Row, Target
from bench.sampling import Effort, interleave

_ROUNDS: Final = 10
_SECONDS: Final = 60  # for some tenths of a second; hit only by a hang
_PLAN: Final = """\
session: {orchestrator: loop-basic, context: context-simple}
providers:
  - module: provider-mock
tools:
  - module: tool-filesystem
    permissions: workspace
hooks:
  - module: hooks-todo-reminder
"""
_CALL: Final = ("call", "builtin:tool-filesystem", "read_file", '{"file_path": "notes.txt"}', "--allow-read=.")


async def measure_commands(effort: Effort) -> list[Row]:
    """Measure a call and a turn, beside a command that prints its version."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.yaml").write_text(_PLAN, encoding="utf-8")
        (Path(folder) / "notes.txt").write_text("noted", encoding="utf-8")

        async def took(*args: str) -> list[float]:
            return [await asyncio.to_thread(_run, folder, *args)]

        with every_core():
            samples = await interleave(
                {
                    "call": lambda: took(*_CALL),
                    "run": lambda: took("run", "plan.yaml", "hello", "--trust-plan"),
                    "version": lambda: took("--version"),
                },
                effort.of(_ROUNDS),
            )
    return [
        Row(
            "`paddock call` of a tool that reads a file, whole command",
            "From the start of the process to its end, on every core.",
            "s",
            samples.p50("call"),
            target=Target(0.35),
        ),
        Row(
            "`paddock run` of five modules with a mock, whole command",
            "One turn, from the start of the process to its end, on every core.",
            "s",
            samples.p50("run"),
            target=Target(0.45),
        ),
        Row(
            "  `paddock --version`, whole command, for comparison",
            "A command that starts nothing, on every core.",
            "s",
            samples.p50("version"),
        ),
    ]


def _run(folder: str, *args: str) -> float:
    """Return the seconds that a command takes."""
    environ = {**os.environ, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder}
    before = time.perf_counter()
    subprocess.run(
        [*PADDOCK, *args],
        cwd=folder,
        env=environ,
        check=True,
        timeout=_SECONDS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - before
