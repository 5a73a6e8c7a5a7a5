"""Pipes to a server in this process, for a test that speaks itself, and for a client of the protocol's official SDK."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from paddock.mcp_server.stdio import Streams, serve

from .scripted import Scripted

_SECONDS = 60  # for a whole test; hit only by a hang


class Wire:
    """The client's ends of two pipes; `served` is the server's task."""

    def __init__(self, incoming: int, outgoing: int, served: asyncio.Task[None]) -> None:
        self.outgoing = outgoing
        self.served = served
        self._incoming = os.fdopen(incoming, "rb", buffering=0)
        self.reader = asyncio.StreamReader(limit=1 << 14)

    async def open(self) -> None:
        protocol = asyncio.StreamReaderProtocol(self.reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._incoming)

    def send(self, *messages: Any) -> None:
        for one in messages:
            line = one if isinstance(one, bytes) else json.dumps({"jsonrpc": "2.0", **one}).encode()
            os.write(self.outgoing, line + b"\n")

    async def next(self) -> Any:
        return json.loads(await self.reader.readline())

    def close(self) -> None:
        if self.outgoing >= 0:
            os.close(self.outgoing)
            self.outgoing = -1


@asynccontextmanager
async def wired(served: Scripted | str) -> AsyncIterator[Wire]:
    """Serve something over pipes until the client's end is closed."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    task = asyncio.ensure_future(serve(served, Streams(theirs_in, theirs_out)))  # type: ignore[arg-type]
    wire = Wire(ours_in, ours_out, task)
    try:
        with anyio.fail_after(_SECONDS):
            await wire.open()
            yield wire
            wire.close()
            await task
    finally:
        wire.close()
        task.cancel()
        os.close(theirs_in)
        os.close(theirs_out)


@asynccontextmanager
async def as_transport(wire: Wire) -> AsyncIterator[Any]:
    """Give the SDK's client a wire as its transport."""
    said, heard = anyio.create_memory_object_stream[Any](16), anyio.create_memory_object_stream[Any](16)

    async def read() -> None:
        while line := await wire.reader.readline():
            await heard[0].send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def write() -> None:
        async for one in said[1]:
            wire.send(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async with said[0], said[1], heard[0], heard[1], anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield heard[1], said[0]
        wire.close()
        await asyncio.wait([wire.served])
        tasks.cancel_scope.cancel()
