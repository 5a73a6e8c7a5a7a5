"""A context in a plain process, holding a conversation. Arguments: its package's folder, the number of messages.

Reads one order a line, `{"requests": 5}`, and answers with the microseconds that each request took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any


def _conversation(size: int) -> list[dict[str, Any]]:
    """Return exchanges of four messages: a prompt, a tool call in both places, its result, an answer."""
    messages: list[dict[str, Any]] = []
    while len(messages) < size:
        call_id = f"call-{len(messages)}"
        call = {"id": call_id, "name": "read_file", "input": {"file_path": "notes.txt"}}
        blocks = [{"type": "thinking", "thinking": "so " * 40, "signature": "s"}, {"type": "tool_call", **call}]
        messages += [
            {"role": "user", "content": "What does the next file say? " * 4},
            {"role": "assistant", "content": blocks, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": "a line of the file\n" * 100},
            {"role": "assistant", "content": [{"type": "text", "text": "It says that all is well. " * 8}]},
        ]
    return messages[:size]


async def _serve(package: Path, size: int) -> None:
    from amplifier_core.testing import MockCoordinator

    sys.path.insert(0, str(package.parent))
    coordinator = MockCoordinator()
    await import_module(package.name).mount(coordinator)
    context = coordinator.get("context")
    await context.set_messages(_conversation(size))
    for line in sys.stdin:
        taken = []
        for _ in range(json.loads(line)["requests"]):
            before = time.perf_counter_ns()
            view = await context.get_messages_for_request()
            taken.append((time.perf_counter_ns() - before) / 1000)
            assert 0 < len(view) < size, "it was to be reduced"
        print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
