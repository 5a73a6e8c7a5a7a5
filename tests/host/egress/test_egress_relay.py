"""Bytes between two sockets arrive as they were sent, both ways, and so does each end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from host.egress.ground import PATIENCE, Ledger
from paddock.egress.connection_record import ConnectionRecord
from paddock.egress.relay import Relay
from support.rows import each_row

_MUCH = 24 << 20  # more than any buffer on the way holds


@dataclass
class Ends:
    """A relay between the far ends of two connections."""

    client: socket.socket
    server: socket.socket
    relay: Relay
    record: ConnectionRecord
    near: tuple[socket.socket, socket.socket]


@asynccontextmanager
async def relayed() -> AsyncIterator[Ends]:
    with ExitStack() as opened:
        client, near_client = _connected(opened)
        server, near_server = _connected(opened)
        record = ConnectionRecord(Ledger(), "tool-x", "direct", {"net": set(), "secrets": set()})
        relay = Relay(near_client, near_server, record)
        try:
            yield Ends(client, server, relay, record, (near_client, near_server))
        finally:
            relay.stop()


def _connected(opened: ExitStack) -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = opened.enter_context(socket.create_connection(listener.getsockname()))
        near = opened.enter_context(listener.accept()[0])
    for each in (far, near):
        each.setblocking(False)
    return far, near


async def send(sock: socket.socket, data: bytes) -> None:
    with anyio.fail_after(PATIENCE):
        await asyncio.get_running_loop().sock_sendall(sock, data)


async def hear(sock: socket.socket) -> bytes:
    """Return everything up to the end."""
    heard = bytearray()
    with anyio.fail_after(PATIENCE):
        while data := await asyncio.get_running_loop().sock_recv(sock, 1 << 20):
            heard += data
    return bytes(heard)


async def send_all(sock: socket.socket, data: bytes) -> None:
    await send(sock, data)
    sock.shutdown(socket.SHUT_WR)


async def test_much_arrives_whole_both_ways_at_once_and_is_counted() -> None:
    up, down = bytes(range(256)) * (_MUCH // 256), bytes(range(255, -1, -1)) * (_MUCH // 256)
    async with relayed() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(ends.relay.run)
        tasks.start_soon(send_all, ends.client, up)
        tasks.start_soon(send_all, ends.server, down)
        heard = await asyncio.gather(hear(ends.client), hear(ends.server))
        assert (heard[0] == down, heard[1] == up) == (True, True)
    assert (ends.record.up, ends.record.down) == (len(up), len(down))


async def test_what_was_read_before_goes_first() -> None:
    async with relayed() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(ends.relay.run, b"first, ")
        await send_all(ends.client, b"second")
        assert await hear(ends.server) == b"first, second"
        ends.server.shutdown(socket.SHUT_WR)


async def test_after_one_side_has_ended_the_other_goes_on() -> None:
    async with relayed() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(ends.relay.run)
        await send_all(ends.client, b"question")
        assert await hear(ends.server) == b"question"
        await send_all(ends.server, b"answer")
        assert await hear(ends.client) == b"answer"


async def test_the_destination_is_heard_before_the_client_has_spoken() -> None:
    async with relayed() as ends:
        ends.relay.start_down()
        await send(ends.server, b"220 ready")
        with anyio.fail_after(PATIENCE):
            assert await asyncio.get_running_loop().sock_recv(ends.client, 100) == b"220 ready"
        await send(ends.client, b"not yet")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.relay.run)
            ends.client.shutdown(socket.SHUT_WR)
            assert await hear(ends.server) == b"not yet"
            ends.server.shutdown(socket.SHUT_WR)


async def test_a_side_that_does_not_read_slows_the_other_without_a_backlog() -> None:
    async with relayed() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(ends.relay.run)
        sent = 0
        stalled_since = asyncio.get_running_loop().time()
        with anyio.fail_after(PATIENCE):
            while asyncio.get_running_loop().time() - stalled_since < 0.3:
                try:
                    sent += ends.client.send(bytes(1 << 16))
                    stalled_since = asyncio.get_running_loop().time()
                except BlockingIOError:
                    await asyncio.sleep(0.01)
        assert sent < 64 << 20
        ends.client.shutdown(socket.SHUT_WR)
        assert len(await hear(ends.server)) == sent
        ends.server.shutdown(socket.SHUT_WR)


@each_row("broken", ["client", "server"])
async def test_a_connection_that_breaks_ends_both_ways(broken: str) -> None:
    async with relayed() as ends:
        sock = ends.client if broken == "client" else ends.server
        with pytest.raises(OSError):
            async with asyncio.timeout(PATIENCE):
                run = asyncio.ensure_future(ends.relay.run())
                await asyncio.sleep(0)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
                await run


async def test_a_broken_destination_ends_reading_of_a_silent_client() -> None:
    async with relayed() as ends:
        ends.relay.start_down()
        ends.server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        ends.server.close()
        assert await hear(ends.near[0]) == b""
        with pytest.raises(ConnectionResetError):
            await ends.relay.run()


async def test_what_is_stopped_leaves_the_sockets_to_others() -> None:
    async with relayed() as ends:
        ends.relay.start_down()
        ends.relay.stop()
        await send_all(ends.server, b"for somebody else")
        assert await hear(ends.near[1]) == b"for somebody else"
