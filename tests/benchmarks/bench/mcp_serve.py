"""A small call of a tool that a plan serves, beside the same of the official server, by the official client."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.calls import INPUT
from bench.child import Child
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import MODULES

_ROUNDS: Final = 20
_CALLS: Final = 60  # in one block
_PLAN: Final = """\
session: {orchestrator: loop-basic, context: context-simple}
providers: [{module: provider-mock}]
tools: [{module: tool-echo, source: ./tool-echo}]
"""


async def measure_mcp_serve(effort: Effort) -> list[Row]:
    """Measure both, each with a client in a process of its own."""
    client = [sys.executable, Path(__file__).with_name("mcp_child.py")]
    with TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.yaml"
        plan.write_text(_PLAN)
        shutil.copytree(MODULES / "tool-echo", Path(folder) / "tool-echo")
        main = ["-c", "from paddock.cli import main; main()"]
        served = [sys.executable, *main, "mcp", "serve", plan, "-C", folder, "-q"]
        async with Child.running([*client, *served]) as ours, Child.running(client) as official:
            samples = await interleave(
                {
                    "ours": lambda: ours.tell(input=INPUT, calls=_CALLS),
                    "official": lambda: official.tell(input=INPUT, calls=_CALLS),
                },
                effort.of(_ROUNDS),
            )
    return [
        Row.compared(
            "call of a tool that a plan serves",
            "A tool call of six arguments by the official client, of `mcp serve` beside the official server.",
            "us",
            samples,
            ("ours", "official"),
            Target(1.3),
        )
    ]
