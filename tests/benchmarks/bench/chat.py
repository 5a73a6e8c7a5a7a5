"""How long it takes until a person can type in a chat: from the start of the command to its line on a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.row import Row, Target
from bench.sampling import Effort, interleave

_ROUNDS: Final = 10
_READY: Final = b"\x1b[?2004h"  # pastes are told apart from keys: the line takes both from now on
_SECONDS: Final = 60  # for some tenths of a second; hit only by a hang
_COMMAND: Final = [sys.executable, "-c", "from paddock.cli import main; main()"]
_PLAN: Final = """\
session: {orchestrator: loop-streaming, context: context-simple}
providers:
  - module: provider-mock
tools:
  - module: tool-filesystem
    permissions: workspace
"""


async def measure_chat(effort: Effort) -> list[Row]:
    """Measure a chat that is left before its session has started, beside a command that says its version."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.yaml").write_text(_PLAN, encoding="utf-8")

        async def ready() -> list[float]:
            return [await asyncio.to_thread(_until_ready, folder)]

        async def version() -> list[float]:
            return [await asyncio.to_thread(_version, folder)]

        samples = await interleave({"chat": ready, "version": version}, effort.of(_ROUNDS))
    return [
        Row("chat ready to type", "ms", samples.p50("chat"), target=Target(600.0)),
        Row("  `paddock --version`, for comparison", "ms", samples.p50("version")),
    ]


def _until_ready(folder: str) -> float:
    master, slave = pty.openpty()
    try:
        began = time.perf_counter_ns()
        process = subprocess.Popen(
            [*_COMMAND, "chat"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "XDG_STATE_HOME": folder},
        )
        try:
            seen = b""
            while _READY not in seen:
                if not select.select([master], [], [], _SECONDS)[0]:
                    raise TimeoutError(f"no line to type in came: {seen!r}")
                seen += os.read(master, 65536)
            taken = (time.perf_counter_ns() - began) / 1e6
            os.write(master, b"\x04")
            while process.poll() is None:
                if select.select([master], [], [], 0.05)[0]:
                    os.read(master, 65536)
            return taken
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(_SECONDS)
    finally:
        os.close(slave)
        os.close(master)


def _version(folder: str) -> float:
    began = time.perf_counter_ns()
    subprocess.run([*_COMMAND, "--version"], check=True, cwd=folder, capture_output=True, timeout=_SECONDS)
    return (time.perf_counter_ns() - began) / 1e6
