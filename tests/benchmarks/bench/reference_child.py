"""The other ends of the references: the least code that does the same work in the same kind of process.

Runs where a module's worker would, started by the same template. Imports nothing but the standard library and msgpack,
and for one of them the contract's result of a tool.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack

LENGTH = struct.Struct(">I")
PAYLOAD_BYTES = 1 << 20
_BUFFER_BYTES = 64 * 1024

_Execute = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

_REPLY = {
    "path": "/srv/project/src/package/module.py",
    "found": True,
    "lines": [12, 48, 131],
    "text": "the third line of the answer is the longest of them all, by a word or two",
}


def serve(rpc: socket.socket, name: str) -> None:
    """Be the child that `name` asks for until the other end closes."""
    servers = {
        "asyncio": _serve_asyncio,
        "results": _serve_results,
        "blocking": _serve_blocking,
        "payload": _serve_payload,
        "forks": _serve_forks,
    }
    servers[name](rpc)


def _serve_asyncio(rpc: socket.socket) -> None:
    asyncio.run(_until_closed(rpc, _execute))


def _serve_results(rpc: socket.socket) -> None:
    from paddock_sdk.contract.models import ToolResult

    async def execute(params: dict[str, Any]) -> dict[str, Any]:
        return ToolResult(success=True, output=_REPLY).model_dump()

    asyncio.run(_until_closed(rpc, execute))


async def _until_closed(rpc: socket.socket, execute: _Execute) -> None:
    rpc.setblocking(False)
    _, child = await asyncio.get_running_loop().create_connection(lambda: _Child(execute), sock=rpc)
    await child.closed.wait()


class _Child(asyncio.BufferedProtocol):
    """Answers each message in a task of its own."""

    def __init__(self, execute: _Execute) -> None:
        self._execute = execute
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._end = 0
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

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
            self._tasks[message["id"]] = asyncio.get_running_loop().create_task(self._answer(message))
            start += size
        rest = bytes(self._buffer[start : self._end])
        self._buffer[: len(rest)] = rest
        self._end = len(rest)

    async def _answer(self, message: dict[str, Any]) -> None:
        data = msgpack.packb({"id": message["id"], "result": await self._execute(message["params"])})
        self._transport.write(LENGTH.pack(len(data)) + data)
        del self._tasks[message["id"]]


async def _execute(params: dict[str, Any]) -> dict[str, Any]:
    return {"success": True, "output": _REPLY}


def _serve_blocking(rpc: socket.socket) -> None:
    while received := rpc.recv(_BUFFER_BYTES):
        message = msgpack.unpackb(received[LENGTH.size :])
        data = msgpack.packb({"id": message["id"], "result": {"success": True, "output": _REPLY}})
        rpc.sendall(LENGTH.pack(len(data)) + data)


def _serve_payload(rpc: socket.socket) -> None:
    buffer = memoryview(bytearray(PAYLOAD_BYTES))
    while True:
        end = 0
        while end < PAYLOAD_BYTES:
            count = rpc.recv_into(buffer[end:])
            if count == 0:
                return
            end += count
        rpc.send(b"\x01")


def _serve_forks(rpc: socket.socket) -> None:
    """Fork as many children as each message says; answer once every one of them has run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    while received := rpc.recv(LENGTH.size):
        (count,) = LENGTH.unpack(received)
        reading, writing = os.pipe()
        for _ in range(count):
            if os.fork() == 0:
                os.write(writing, b"\x01")
                os._exit(0)
        while count:
            count -= len(os.read(reading, count))
        os.close(reading)
        os.close(writing)
        rpc.send(b"\x01")
