"""What an MCP server costs in a sandbox, through tool-mcp: beside the official client's use of it, and the bare server.

The server is the same on both sides, by the official package. The official client runs in this process, without a
sandbox.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from mcp import Client as OfficialClient
from mcp import StdioServerParameters

from bench.affinity import every_core
from bench.calls import INPUT
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import Stage
from bench.timing import repeated
from paddock.session.module import HostedModule
from paddock_sdk.mcp.client import Client

_ROUNDS: Final = 20
_STARTS: Final = 4
_CALLS: Final = 60  # in one block
_STARTED: Final = {  # by how many are started at once: the row, what it measures, the target
    1: (
        "start of an MCP server in a sandbox, to the official client's",
        "Up to its tools, beside the official client's connection to it and list of them.",
        1.2,
    ),
    10: (
        "10 MCP servers started in sandboxes, to the official client's",
        "Side by side, up to the tools of all.",
        1.5,
    ),
}
_OTHERS: Final = 4  # modules of a small session, which share with it what its template has loaded
_MIB: Final = 1 << 20
_SERVER: Final = [sys.executable, str(Path(__file__).with_name("mcp_child.py")), "serve"]
_PARAMETERS: Final = StdioServerParameters(command=_SERVER[0], args=_SERVER[1:])


async def measure_tool_mcp(effort: Effort) -> list[Row]:
    """Measure calls and memory of a server that runs, and starts of one and of ten."""
    async with Stage.open() as stage:
        return [*await _measure_calls(stage, effort), *await _measure_starts(stage, effort)]


async def _measure_calls(stage: Stage, effort: Effort) -> list[Row]:
    module = await _started(stage, "shut_in")
    client = await Client.start(_SERVER)
    tool = stage.tool("shut_in_echo")
    async with OfficialClient(_PARAMETERS) as official:
        cases = {
            "shut in": repeated(lambda: tool.execute(INPUT), _CALLS),
            "own": repeated(lambda: client.call_tool("echo", INPUT), _CALLS),
            "official": repeated(lambda: official.call_tool("echo", INPUT), _CALLS),
        }
        samples = await interleave(cases, effort.of(_ROUNDS))
    await client.close()
    others = [await stage.start("tool", "tool-trivial", {"name": f"other_{number}"}) for number in range(_OTHERS)]
    process = module.supervisor.process
    assert process is not None, "a module that has just answered is alive"
    pss = sum(psutil.Process(pid).memory_full_info().pss for pid in (process.pid, process.init_pid))
    await stage.stop([module, *others], ["shut_in_echo", *(f"other_{number}" for number in range(_OTHERS))])
    return [
        Row.compared(
            "call of an MCP server in a sandbox, to the official client's",
            "A tool call of six arguments by the host, beside the official client's, which shuts nothing in.",
            "us",
            samples,
            ("shut in", "official"),
            Target(1.0),
        ),
        Row.compared(
            "call of an MCP server in a sandbox, to our client's",
            "The same, beside our client alone, which shuts nothing in.",
            "us",
            samples,
            ("shut in", "own"),
            Target(3.0),
        ),
        Row.compared(
            "call of an MCP server by our client",
            "A tool call of six arguments by our client, beside the official client's to the same server.",
            "us",
            samples,
            ("own", "official"),
            Target(1.0),
        ),
        Row(
            "memory of an MCP server in a sandbox, over its own (PSS)",
            "The module's worker and its init, without the server itself, in a session of five modules.",
            "MiB",
            pss / _MIB,
            target=Target(16),
        ),
    ]


async def _measure_starts(stage: Stage, effort: Effort) -> list[Row]:
    async def shut_in(count: int) -> list[float]:
        names = [f"desk_{number}" for number in range(count)]
        starts = [await _cast(stage, name) for name in names]
        before = time.perf_counter()
        modules = await asyncio.gather(*(start() for start in starts))
        taken = time.perf_counter() - before
        await stage.stop(modules, [f"{name}_echo" for name in names])
        return [taken]

    async def official(count: int) -> list[float]:
        before = time.perf_counter()
        async with AsyncExitStack() as stack:
            ended = asyncio.Event()
            connected = [asyncio.Event() for _ in range(count)]
            group = await stack.enter_async_context(asyncio.TaskGroup())
            for event in connected:
                group.create_task(_connected(event, ended))
            for event in connected:
                await event.wait()
            taken = time.perf_counter() - before
            ended.set()
        return [taken]

    starts = {count: told for count, told in _STARTED.items() if count == 1 or effort is Effort.FULL}
    cases = {f"{count}": partial(shut_in, count) for count in starts}
    cases |= {f"{count} by official": partial(official, count) for count in starts}
    with every_core():
        samples = await interleave(cases, effort.of(_STARTS, 1), 60)
    return [
        Row.compared(what, measures, "s", samples, (f"{count}", f"{count} by official"), Target(bound))
        for count, (what, measures, bound) in starts.items()
    ]


async def _connected(connected: asyncio.Event, ended: asyncio.Event) -> None:
    async with OfficialClient(_PARAMETERS) as client:
        await client.list_tools()
        connected.set()
        await ended.wait()


async def _started(stage: Stage, name: str) -> HostedModule:
    return await (await _cast(stage, name))()


async def _cast(stage: Stage, name: str) -> Any:
    return await stage.cast(
        "tool",
        "tool-mcp",
        {"command": _SERVER, "prefix": name, "name": name},
        permissions={"run": [sys.executable], "read": [_SERVER[1]]},
    )
