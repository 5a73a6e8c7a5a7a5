"""The host's ends of the references, and how their children are started: as the workers are.

`AsyncioReference` is what a host could do at best in plain asyncio, without a deadline, a check or a handle;
`ResultReference` also has the one check that the contract itself asks for, of a tool's result; `BlockingReference` is
what the machine can do at all; `RawPayload` moves bytes and does nothing else, and `BareForks` forks.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import msgpack

from bench.reference_child import LENGTH, PAYLOAD_BYTES
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.launcher import LaunchSpec
from paddock.workers.runtime import WorkerRuntime
from paddock_sdk.contract.models import ToolResult

_BUFFER_BYTES = 64 * 1024
_CHILD = "reference_child"
_ANSWER_SECONDS: Final = 60.0  # for what takes milliseconds; hit only by a hang, in which nothing else here would run


@asynccontextmanager
async def reference_child(name: str) -> AsyncIterator[socket.socket]:
    """Start the child of a reference, and end it; the socket is not blocking."""
    located = WorkerRuntime.locate()
    runtime = replace(
        located,
        packages=(*located.packages, (_CHILD, Path(__file__).parent)),
        preload=(*located.preload, _CHILD),
    )
    spec = LaunchSpec(name=name, working_dir=Path("/"), environ={}, runtime=runtime, entry=f"{_CHILD}:serve")
    launcher = ForkServerLauncher()
    try:
        process = await launcher.launch(spec)
        try:
            yield process.rpc
        finally:
            process.rpc.close()
            await process.stop(grace=1.0)
    finally:
        await launcher.aclose()


class AsyncioReference(asyncio.BufferedProtocol):
    """Calls by length prefix and msgpack; a future each, and nothing else."""

    child = "asyncio"

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._end = 0
        self._next_id = 1
        self._pending: dict[int, asyncio.Future[object]] = {}
        self._loop = asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """Have a child that answers."""
        async with reference_child(cls.child) as rpc:
            _, reference = await asyncio.get_running_loop().create_connection(cls, sock=rpc)
            try:
                yield reference
            finally:
                reference._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def call(self, method: str, params: dict[str, Any]) -> object:
        """Return the child's answer."""
        id, self._next_id = self._next_id, self._next_id + 1
        future = self._pending[id] = self._loop.create_future()
        data = msgpack.packb({"id": id, "method": method, "params": params})
        self._transport.write(LENGTH.pack(len(data)) + data)
        return await future

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        start = 0
        while self._end - start >= LENGTH.size:
            size = LENGTH.unpack_from(self._buffer, start)[0] + LENGTH.size
            if self._end - start < size:
                break
            message = msgpack.unpackb(self._buffer[start + LENGTH.size : start + size])
            self._pending.pop(message["id"]).set_result(message["result"])
            start += size
        rest = bytes(self._buffer[start : self._end])
        self._buffer[: len(rest)] = rest
        self._end = len(rest)


class ResultReference(AsyncioReference):
    """The same calls where the child makes the contract's result of a tool, and this end validates it."""

    child = "results"

    async def call(self, method: str, params: dict[str, Any]) -> ToolResult:
        """Return the child's result."""
        return ToolResult.model_validate(await super().call(method, params))


class BlockingReference:
    """The same messages over blocking sockets."""

    def __init__(self, rpc: socket.socket) -> None:
        rpc.settimeout(_ANSWER_SECONDS)
        self._rpc = rpc
        self._next_id = 1

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the child's answer; everything else in this process waits for it."""
        id, self._next_id = self._next_id, self._next_id + 1
        data = msgpack.packb({"id": id, "method": method, "params": params})
        self._rpc.sendall(LENGTH.pack(len(data)) + data)
        message = msgpack.unpackb(self._rpc.recv(_BUFFER_BYTES)[LENGTH.size :])
        result: dict[str, Any] = message["result"]
        return result


class RawPayload:
    """A mebibyte through a socket pair, and a byte back."""

    def __init__(self, rpc: socket.socket) -> None:
        rpc.settimeout(_ANSWER_SECONDS)
        self._rpc = rpc

    def push(self, payload: bytes) -> None:
        """Return when the child has all of it."""
        assert len(payload) == PAYLOAD_BYTES
        self._rpc.sendall(payload)
        self._rpc.recv(1)


class BareForks:
    """Forks of a process that has imported what a template has, each of which does nothing."""

    def __init__(self, rpc: socket.socket) -> None:
        rpc.settimeout(_ANSWER_SECONDS)
        self._rpc = rpc

    def fork(self, count: int) -> None:
        """Return when so many children have run."""
        self._rpc.sendall(LENGTH.pack(count))
        self._rpc.recv(1)
