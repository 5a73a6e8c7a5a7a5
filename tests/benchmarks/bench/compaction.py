"""What it takes a context to make a request of a conversation that is many times larger than the model's window."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bench.child import Child
from bench.contract import BUILTIN, OWN_PATH
from bench.row import Row
from bench.sampling import Effort, interleave
from bench.yardstick import bare_interpreter

_MESSAGES: Final = 10_000
_REQUESTS: Final = 5
_ROUNDS: Final = 10


async def measure_compaction(effort: Effort) -> list[Row]:
    """Measure a request of the context with its default settings: reading, reducing, copying, three events."""
    program = Path(__file__).with_name("compaction_child.py")
    package = BUILTIN / "contexts" / "amplifier_module_context_simple"
    command = [sys.executable, program, str(package), str(_MESSAGES)]
    async with Child.running(command, {"PYTHONPATH": OWN_PATH}) as child:
        samples = await interleave({"ours": lambda: child.tell(requests=_REQUESTS)}, effort.of(_ROUNDS))
    ours = samples.p50("ours") / 1000
    what = f"compaction of a conversation of {_MESSAGES} messages"
    about = "A request of context-simple for a model whose window is many times smaller than the conversation."
    return [(await bare_interpreter(effort)).row(what, about, "ms", ours, 50.0)]
