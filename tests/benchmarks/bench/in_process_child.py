"""The modules of a turn in one plain process, with the `amplifier_core` that this interpreter's path leads to.

Reads one order a line and answers with the microseconds of each repetition: `{"events": 20}` emits to a handler,
`{"turns": 8}` runs turns of the plan. `{"firsts": 8}` runs them too, and answers with the milliseconds after which
pieces came whose text is the time at which they were sent. Arguments, as JSON: the plan, the folders of its modules,
the event's data.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

_EVENT = "bench:in-process"


class _Resolver:
    """The contract's resolver: a folder for each module."""

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders = folders

    def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> _Folder:
        return _Folder(Path(self._folders[module_id]))


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def resolve(self) -> Path:
        return self._path


async def _serve(plan: dict[str, Any], folders: dict[str, str], data: dict[str, Any]) -> None:
    from amplifier_core import AmplifierSession, HookRegistry, HookResult

    async def nod(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult()

    hooks = HookRegistry()
    hooks.register(_EVENT, nod)
    session = AmplifierSession(plan)
    await session.coordinator.mount("module-source-resolver", _Resolver(folders))
    pieces: list[float] = []

    async def note(event: str, data: dict[str, Any]) -> HookResult:
        if str(data["text"]).isdigit():
            pieces.append((time.monotonic_ns() - int(data["text"])) / 1e6)
        return HookResult()

    async with session:
        session.coordinator.hooks.register("llm:stream_block_delta", note)
        context = session.coordinator.get("context")
        for line in sys.stdin:
            order = json.loads(line)
            if "events" in order:
                taken = [await _timed(lambda: hooks.emit(_EVENT, data)) for _ in range(order["events"])]
            else:
                await context.clear()  # else each turn carries those before it
                pieces.clear()
                turns = range(order.get("turns") or order["firsts"])
                taken = [await _timed(lambda: session.execute("hello")) for _ in turns]
                taken = list(pieces) if "firsts" in order else taken
            print(json.dumps(taken), flush=True)


async def _timed(act: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter_ns()
    await act()
    return (time.perf_counter_ns() - before) / 1000


if __name__ == "__main__":
    asyncio.run(_serve(*map(json.loads, sys.argv[1:])))
