"""What one module does too much of waits or is refused, and the host goes on."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress

import anyio
import pytest

from host.egress.ground import LOOPBACK, PATIENCE, Ground, Line, answered, brief, gate_for, serving
from host.egress.origin import origin
from host.egress.test_egress_gate import shout
from host.egress.test_egress_http import get
from support.rows import each_row


async def served(line: Line) -> bool:
    await line.say(b"{}\n")
    return await line.hear(3) == b"{}\n"


async def test_connections_beyond_the_bound_wait_for_one_of_the_others_to_end() -> None:
    bounds = brief(connections=3, waiting_seconds=PATIENCE, idle_seconds=PATIENCE)
    async with serving(shout) as port, gate_for(f"{LOOPBACK}:{port}", bounds=bounds) as ground:
        lines = [await ground.connect(LOOPBACK, port) for _ in range(5)]
        assert all([await served(line) for line in lines[:3]])
        for line in lines[3:]:
            await line.say(b"{}\n")
        for ended, waiting in ((lines[0], lines[3]), (lines[1], lines[4])):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting.reader.read(1), 0.1)
            await ended.close()
            assert await waiting.hear(3) == b"{}\n"
        for line in lines[2:]:
            await line.close()
        await ground.ledger.has(5)
    assert not ground.ledger.denials


async def test_those_who_have_waited_too_long_are_refused_and_it_is_told() -> None:
    bounds = brief(connections=2, idle_seconds=PATIENCE)
    async with serving(shout) as port, gate_for(f"{LOOPBACK}:{port}", bounds=bounds) as ground:
        lines = [await ground.connect(LOOPBACK, port) for _ in range(5)]
        assert all([await served(line) for line in lines[:2]])
        for line in lines[2:]:
            assert await line.rest() == b"RESET"
        assert {denial.reason for denial in ground.ledger.denials} == {
            "2 connections of the module are open, and there may not be more"
        }
        assert [denial.target for denial in ground.ledger.denials] == [f"{LOOPBACK}:{port}"] * 3
        assert all([await served(line) for line in lines[:2]])
        await lines[0].close()
        line = await ground.connect(LOOPBACK, port)
        assert await served(line)
        for each in (*lines[1:], line):
            await each.close()


@each_row("has_own", [False, True])
async def test_of_a_full_proxy_the_same_is_told_wherever_it_is(has_own: bool) -> None:
    bounds = brief(connections=1, head_seconds=PATIENCE, idle_seconds=PATIENCE)
    async with gate_for("api.test", bounds=bounds) as ground:
        where = (LOOPBACK, ground.gate.listen()) if has_own else ground.proxy()
        lines = [await Line.to(where) for _ in range(2)]
        assert await lines[1].rest() == b"RESET"
        (denial,) = ground.ledger.denials
        for line in lines:
            await line.close()
    assert (denial.target, denial.reason) == (
        "the proxy",
        "1 connections of the module are open, and there may not be more",
    )


async def test_a_flood_of_connections_is_taken_a_few_at_a_time() -> None:
    bounds = brief(accepts_at_once=5, accepts_per_second=20, idle_seconds=PATIENCE)
    async with serving(shout) as port, gate_for("127.0.0.1:1", bounds=bounds) as ground:
        started = asyncio.get_running_loop().time()
        lines = [await ground.connect(LOOPBACK, port) for _ in range(15)]
        for line in lines:
            assert await line.rest() == b"RESET"
        assert len(await ground.ledger.has(15)) == 15
        # Ten more than there were tokens for, at twenty a second.
        assert asyncio.get_running_loop().time() - started > 0.4


async def test_a_flood_of_lookups_costs_only_its_module_time() -> None:
    bounds = brief(lookups_at_once=20, lookups_per_second=200)
    async with gate_for("api.test", bounds=bounds) as ground, gate_for("api.test", bounds=bounds) as other:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((LOOPBACK, ground.dns))
            sock.settimeout(PATIENCE)
            began = time.monotonic()
            for number in range(3000):
                sock.send(number.to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0\3api\4test\0\0\1\0\1")
            # The kernel keeps some of them for the gate and drops the rest; nobody else waits behind those.
            assert await other.address_of("api.test") is not None
            for _ in range(20 + 60):
                await asyncio.to_thread(sock.recv, 512)
            assert time.monotonic() - began > 59 / 200
        # By then the kernel has room again.
        assert await ground.address_of("api.test") is not None


async def test_a_flood_of_requests_is_passed_on_in_its_own_time() -> None:
    bounds = brief(requests_at_once=5, requests_per_second=50)
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}", bounds=bounds) as ground:
        line = await ground.connect(LOOPBACK, site.port)
        started = asyncio.get_running_loop().time()
        await line.say(get(f"localhost:{site.port}") * 25)
        assert [(await line.answer())[0] for _ in range(25)] == [200] * 25
        assert asyncio.get_running_loop().time() - started > 0.3  # twenty more than there were tokens for
        await line.close()


async def test_relays_that_are_flooded_leave_the_loop_to_others() -> None:
    """Sixteen connections at full speed: whatever else runs on the loop still gets its turns."""

    async def swallow(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 20):
            pass

    def pour(where: tuple[str, int], stop: asyncio.Event) -> None:
        with socket.create_connection(where) as sock, suppress(OSError):
            sock.sendall(b"\0")
            while not stop.is_set():
                sock.sendall(bytes(1 << 18))

    async with serving(swallow) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        stop = asyncio.Event()
        places = [await ground.place(LOOPBACK, port) for _ in range(16)]
        pouring = [asyncio.create_task(asyncio.to_thread(pour, place, stop)) for place in places[:4]]
        # By what this thread computes, which other programs on the machine take nothing from.
        turns, end = 0, time.thread_time() + 0.5
        while time.thread_time() < end:
            await asyncio.sleep(0)
            turns += 1
        stop.set()
        await ground.gate.detach()
        with anyio.fail_after(PATIENCE):
            await asyncio.gather(*pouring)
    assert turns > 50, f"{turns} turns in half a second of processor time"


async def test_pipelined_requests_and_a_stalled_client_hold_up_no_other() -> None:
    async def endless(asked: object, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
            await writer.drain()

    async with origin(endless) as stalled, origin() as site:
        async with gate_for(f"{LOOPBACK}:{stalled.port}", f"{LOOPBACK}:{site.port}") as ground:
            greedy = await ground.connect(LOOPBACK, stalled.port)
            greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await greedy.say(get(f"localhost:{stalled.port}"))
            assert all(await asyncio.gather(*(_one_request(ground, site.port) for _ in range(30))))
            await greedy.close()


async def _one_request(ground: Ground, port: int) -> bool:
    status, _, body = await answered(await ground.place(LOOPBACK, port), get(f"localhost:{port}"))
    return (status, body) == (200, b"ok")
