"""Whole commands, as a person waits for them, beside an interpreter that does nothing, on every core.

Each is measured from the start of the process to its end.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.affinity import every_core
from bench.chat import PADDOCK
from bench.row import Row
from bench.sampling import Effort, interleave
from bench.yardstick import in_bare_interpreters, run_bare_interpreter

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
_LIBRARIES: Final = "import anyio._backends._asyncio, click, msgpack, pydantic"
_CALL: Final = ("call", "builtin:tool-filesystem", "read_file", '{"file_path": "notes.txt"}', "--allow-read=.")


async def measure_commands(effort: Effort) -> list[Row]:
    """Measure a call and a turn, beside a command that prints its version."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.yaml").write_text(_PLAN, encoding="utf-8")
        (Path(folder) / "notes.txt").write_text("noted", encoding="utf-8")

        async def took(*command: str) -> list[float]:
            return [await asyncio.to_thread(seconds_of, folder, command)]

        async def bare() -> list[float]:
            return [await asyncio.to_thread(run_bare_interpreter) / 1000]

        with every_core():
            samples = await interleave(
                {
                    "call": lambda: took(*PADDOCK, *_CALL),
                    "run": lambda: took(*PADDOCK, "run", "plan.yaml", "hello", "--trust-plan"),
                    "version": lambda: took(*PADDOCK, "--version"),
                    "libraries": lambda: took(sys.executable, "-c", _LIBRARIES),
                    "pass": bare,
                },
                effort.of(_ROUNDS),
            )
    return [
        Row.compared(
            "`paddock call` of a tool that reads a file, to `python -c pass`",
            "The whole command, beside an interpreter that does nothing.",
            "s",
            samples,
            ("call", "pass"),
            in_bare_interpreters(0.35),
        ),
        Row.compared(
            "  libraries that a call loads, to `python -c pass`",
            "An interpreter that loads asyncio, anyio, click, msgpack and pydantic, beside one that does nothing.",
            "s",
            samples,
            ("libraries", "pass"),
        ),
        Row.compared(
            "`paddock run` of five modules with a mock, to `python -c pass`",
            "The whole command with one turn, beside an interpreter that does nothing.",
            "s",
            samples,
            ("run", "pass"),
            in_bare_interpreters(0.45),
        ),
        Row.compared(
            "  `paddock --version`, to `python -c pass`",
            "A command that starts nothing, beside an interpreter that does nothing.",
            "s",
            samples,
            ("version", "pass"),
        ),
    ]


def seconds_of(folder: str, command: Sequence[str]) -> float:
    """Return the seconds that a command takes in a folder that is its user's as well."""
    environ = {**os.environ, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder}
    before = time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env=environ,
        check=True,
        timeout=_SECONDS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - before
