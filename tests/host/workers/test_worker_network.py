"""What a worker with a network sends arrives at the sockets that the host was handed, and nothing arrives elsewhere."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import pytest

from host.workers.conftest import Launch, by, open_fds
from host.workers.levels import BWRAP, LANDLOCK, NONE, NS, NS_BY_EXEC, Levels, Way
from host.workers.test_isolation_levels import with_changes
from host.workers.waiting import PATIENCE, answer, ended, here
from paddock.workers import fork_server
from paddock.workers.init_socket import WorkerSockets
from paddock_sandbox import landlock, self_check
from paddock_sandbox.network import GATEWAY, LOOKUP_PORT
from paddock_sandbox.profile import Mount, NetworkAccess
from paddock_sandbox.rlimits import Rlimit
from support.examples import repeating

PORTS = (443, 3128, 8080)


with_its_own_network = by(NS, *repeating(NS_BY_EXEC), BWRAP)
on_the_machines = by(LANDLOCK)


async def with_acts(start: Launch, *acts: tuple[object, ...], **parts: Any) -> Any:
    return await start("tries", environ=(("ACTS", json.dumps(acts)),), **parts)


@asynccontextmanager
async def answered(network: WorkerSockets, address: str = "198.18.0.7") -> AsyncIterator[None]:
    """Tell whoever connects where it wanted to go; have every name stand for this address."""
    async with anyio.create_task_group() as tasks:
        for listener in network.listeners:
            tasks.start_soon(_tell_destinations, listener)
        tasks.start_soon(_answer_lookups, network.dns, address)
        yield
        tasks.cancel_scope.cancel()


async def _tell_destinations(listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        stream, _ = await loop.sock_accept(listener)
        with stream:
            host, port = stream.getsockname()
            await loop.sock_sendall(stream, f"{host}:{port}".encode())


async def _answer_lookups(dns: socket.socket, address: str) -> None:
    loop = asyncio.get_running_loop()
    while True:
        asked, sender = await loop.sock_recvfrom(dns, 512)
        name_ends = asked.index(b"\0", 12)
        (kind,) = struct.unpack_from(">H", asked, name_ends + 1)
        records = [struct.pack(">HHHIH4s", 0xC00C, 1, 1, 1, 4, socket.inet_aton(address))] if kind == 1 else []
        head = asked[:2] + struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0)
        await loop.sock_sendto(dns, head + asked[12 : name_ends + 5] + b"".join(records), sender)


def taken(process: Any) -> WorkerSockets:
    network = process.take_network()
    assert network is not None
    return network


async def told_by(process: Any) -> list[str]:
    """Return what came of a worker's acts while somebody answers on its sockets."""
    network = taken(process)
    try:
        async with answered(network):
            told: list[str] = json.loads(await answer(process))
    finally:
        network.close()
    return told


@with_its_own_network
async def test_a_connection_arrives_at_the_host_and_knows_where_it_was_to_go(start: Launch) -> None:
    where = [("198.18.0.7", 443), ("127.0.0.1", 8080), ("203.0.113.5", 443), ("10.1.2.3", 8080), (GATEWAY, 3128)]
    process = await with_acts(start, *(("reach", *each) for each in where), network=NetworkAccess(PORTS))
    assert await told_by(process) == [f"{host}:{port}" for host, port in where]


@with_its_own_network
async def test_a_connection_to_any_other_port_is_refused(start: Launch) -> None:
    acts = [("reach", address, port) for address in ("198.18.0.7", "127.0.0.1", GATEWAY) for port in (80, 22, 8081)]
    told = await told_by(await with_acts(start, *acts, network=NetworkAccess(PORTS)))
    # Nobody is there in any case; Landlock, where it can, does not let it come to that.
    assert {*told} == {"EACCES" if landlock.abi() >= 4 else "ECONNREFUSED"}


@with_its_own_network
async def test_names_are_looked_up_at_the_host_by_those_who_never_heard_of_it(start: Launch, tmp_path: Path) -> None:
    """By the C library's own resolver, which asks the kernel for its addresses first and is refused that."""
    (tmp_path / "resolv.conf").write_text(f"nameserver {GATEWAY}\n")
    process = await with_acts(
        start,
        ("look up", "api.example", 443),
        ("look up", "localhost.localdomain", 443),
        ("reach", "api.example", 443),
        ("ask", GATEWAY, LOOKUP_PORT, "xy\x01\x00\x00\x01" + "\x00" * 6 + "\x01a\x00\x00\x01\x00\x01"),
        network=NetworkAccess(PORTS),
        mounts=[Mount(str(tmp_path / "resolv.conf"), "/etc/resolv.conf")],
    )
    found, local, reached, raw = await told_by(process)
    assert (found, local, reached) == ("198.18.0.7:443", "198.18.0.7:443", "198.18.0.7:443")
    assert raw.startswith("xy")


@with_its_own_network
async def test_datagrams_to_anywhere_else_are_lost_inside(start: Launch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
        outside.bind(("127.0.0.1", 0))
        outside.setblocking(False)
        port = outside.getsockname()[1]
        told = await told_by(await with_acts(start, ("ask", "127.0.0.1", port, "x"), network=NetworkAccess(PORTS)))
        assert told[0] in ("ECONNREFUSED", "EACCES")
        with pytest.raises(BlockingIOError):
            outside.recv(1)


# What is refused whatever the level; without isolation each of these goes well, or fails for a reason of its own.
NEVER = {
    ("socket", socket.AF_INET6, socket.SOCK_STREAM): "EAFNOSUPPORT",
    ("socket", socket.AF_UNIX, socket.SOCK_STREAM): "EACCES",
    ("socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP): "EACCES",
    ("socket", 16, socket.SOCK_RAW): "EACCES",  # netlink
    ("socket", 17, socket.SOCK_RAW): "EACCES",  # packets
    ("socket", 40, socket.SOCK_STREAM): "EACCES",  # other machines' of the same hardware
    ("socket", socket.AF_INET, socket.SOCK_STREAM, 262): "EPROTONOSUPPORT",  # MPTCP
    ("socket", socket.AF_INET, socket.SOCK_STREAM, 132): "EPROTONOSUPPORT",  # SCTP
    ("listen",): "EACCES",
}


async def test_no_other_socket_can_be_made_nor_any_be_served_at(start: Launch, way: Way) -> None:
    process = await with_acts(start, *NEVER, network=NetworkAccess((3128,)))
    told = dict(zip(NEVER, json.loads(await answer(process)), strict=True))
    if way.level == "none":
        assert told[("listen",)] == told["socket", socket.AF_UNIX, socket.SOCK_STREAM] == "ok"
    else:
        assert told == NEVER


@by(NS, BWRAP, LANDLOCK)
async def test_what_was_granted_is_all_that_is_promised_and_the_rest_was_tried(start: Launch, way: Way) -> None:
    access = NetworkAccess((3128,))
    process = await start(network=access)
    tried = process.ready.verdicts
    assert tried["socket inet"] == self_check.SUCCEEDED
    assert {"mptcp", "serve", "connect by sending", "lay a protocol over tcp"} <= tried.keys()
    assert (tried["send datagrams"] == self_check.SUCCEEDED) is (way.level != "landlock")


@by(NS, NS_BY_EXEC, BWRAP, LANDLOCK)
async def test_a_worker_has_no_more_descriptors_and_capabilities_for_its_network(start: Launch) -> None:
    for network in (None, NetworkAccess(PORTS)):
        process = await with_acts(start, ("descriptors",), ("capabilities",), network=network)
        assert json.loads(await answer(process)) == ["4", ""]


@with_its_own_network
async def test_its_init_keeps_no_capability_either(start: Launch) -> None:
    process = await start(network=NetworkAccess(PORTS))
    with anyio.fail_after(PATIENCE):  # it gives them up while the worker starts
        while any(held_by(process.init_pid).values()):
            await anyio.sleep(0.01)


def held_by(pid: int) -> dict[str, int]:
    """Return the sets of capabilities of a process, but for the bounding one."""
    lines = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(lines[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}


async def test_without_a_network_of_its_own_a_worker_hands_over_nothing(start: Launch, way: Way) -> None:
    assert (await start()).take_network() is None
    if way in (LANDLOCK, NONE):
        assert (await start(network=NetworkAccess((3128,)))).take_network() is None


@with_its_own_network
async def test_the_listeners_are_given_away_once_in_port_order(start: Launch) -> None:
    process = await start(network=NetworkAccess((8080, 443, 65535)))
    network = taken(process)
    assert process.take_network() is None
    try:
        assert network.dns.getsockname() == (GATEWAY, LOOKUP_PORT)
        assert [each.getsockname() for each in network.listeners] == [("0.0.0.0", port) for port in (8080, 443, 65535)]
        assert not any(each.getblocking() for each in (network.dns, *network.listeners))
    finally:
        network.close()


@by(NS)
@pytest.mark.parametrize("end", ["stop", "its own", "abandon"])
async def test_sockets_that_were_not_taken_are_closed_with_the_trees_end(start: Launch, end: str) -> None:
    process = await start(network=NetworkAccess(PORTS))
    await here(process)
    before = len(open_fds())
    with anyio.fail_after(PATIENCE):
        if end == "stop":
            await process.stop(0)
        elif end == "abandon":
            await process.abandon()
        else:
            process.rpc.send(b"x")
            await ended(process)
    assert process.take_network() is None
    assert before - len(open_fds()) >= len(PORTS) + 1


@by(NS)
async def test_sockets_that_were_taken_outlive_the_worker(start: Launch) -> None:
    process = await start(network=NetworkAccess(PORTS))
    network = taken(process)
    try:
        await process.stop(0)
        assert network.listeners[0].getsockname() == ("0.0.0.0", PORTS[0])
    finally:
        network.close()


@by(NS)
async def test_a_worker_with_few_files_to_open_can_have_many_ports(start: Launch) -> None:
    ports = tuple(range(1, 101))
    limit = (Rlimit("NOFILE", 24),)
    process = await with_acts(start, ("reach", "198.18.0.7", 100), network=NetworkAccess(ports), rlimits=limit)
    assert await told_by(process) == ["198.18.0.7:100"]


@with_its_own_network
async def test_more_ports_than_can_be_had_are_an_error(start: Launch) -> None:
    error = await start.refused(network=NetworkAccess(tuple(range(1, 202))))
    assert error.step == "listeners"
    assert "201 ports; there can be 200" in error.message


@with_its_own_network
async def test_a_network_that_cannot_be_made_is_no_network(start: Launch, levels: Levels, tmp_path: Path) -> None:
    code = """
def _listener(port):
    with _naming(f"listener at port {port}"):
        raise OSError(98, "injected")
"""
    error = await start.refused(network=NetworkAccess(PORTS), **with_changes(levels, tmp_path, {"network": code}))
    assert (error.step, error.errno) == ("listener at port 443", 98)


@by(NS)  # others start with the host's own limit, and have no sockets to hand over
async def test_a_host_that_can_have_no_more_descriptors_says_so(start: Launch) -> None:
    await start()  # the launcher has what it needs itself
    with few_descriptors(30):
        error = await start.refused(network=NetworkAccess(tuple(range(1, 101))))
    assert (error.step, error.errno) == ("network", errno.EMFILE)


@by(NS)
async def test_a_user_that_can_send_no_more_descriptors_is_told_so(
    start: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel answers an ordinary user whose processes have sent more, to anybody, than their limit is."""
    await start()  # starts the template
    with monkeypatch.context() as full:
        full.setattr(fork_server.socket, "send_fds", Mock(side_effect=OSError(errno.ETOOMANYREFS, "")))
        error = await start.refused()
    assert (error.step, error.errno) == ("hand-over", errno.ETOOMANYREFS)
    assert "ulimit -n" in error.hints[0]


@contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """Let this process have only some more descriptors than it has.

    Its limit stays high: what all processes of an ordinary user have on its way counts against that as well.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    opened: list[int] = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(more):
            os.close(opened.pop())
        yield
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def proxy() -> Iterator[int]:
    """The port of somebody who answers on the machine's own network, and says so."""
    with serving() as port:
        yield port


@contextmanager
def serving() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    stream, _ = listener.accept()
                except OSError:
                    return
                with stream:
                    stream.sendall(b"here")

        server = threading.Thread(target=serve)
        server.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join(PATIENCE)


@by(LANDLOCK, NONE)
async def test_beside_the_host_the_one_port_can_be_reached_and_no_other(start: Launch, way: Way, proxy: int) -> None:
    with serving() as other:
        acts = [
            ("reach", "127.0.0.1", proxy),
            ("reach", "127.0.0.1", other),
            ("connect by sending", "127.0.0.1", other),
        ]
        process = await with_acts(start, *acts, network=NetworkAccess((proxy,)))
        told = json.loads(await answer(process))
    assert told == (["here", "here", "ok"] if way.level == "none" else ["here", "EACCES", "ENOTSUP"])


@by(LANDLOCK, NONE)
async def test_beside_the_host_there_are_no_datagrams_and_no_ports_of_its_own(start: Launch, way: Way) -> None:
    acts = [("socket", socket.AF_INET, socket.SOCK_DGRAM), ("listen",), ("listen", "127.0.0.1", 0)]
    told = json.loads(await answer(await with_acts(start, *acts, network=NetworkAccess((3128,)))))
    assert told == (["ok"] * 3 if way.level == "none" else ["EACCES"] * 3)


@on_the_machines
async def test_where_landlock_cannot_tell_ports_apart_nothing_starts(
    start: Launch, levels: Levels, tmp_path: Path
) -> None:
    changes = with_changes(levels, tmp_path, {"landlock": "def abi():\n    return 3\n"})
    error = await start.refused(network=NetworkAccess((3128,)), **changes)
    assert (error.step, error.errno) == ("Landlock", errno.EOPNOTSUPP)
    assert "from Landlock ABI 4 (Linux 6.7) on; this kernel has ABI 3" in error.message


@on_the_machines
@pytest.mark.parametrize(
    ("module", "function", "breached"),
    [
        ("landlock", "restrict", {"bind", "connect to another port"}),
        ("seccomp", "install", {"serve", "mptcp", "send datagrams", "connect by sending", "socket inet6"}),
    ],
)
async def test_a_network_that_is_not_bounded_is_no_lockdown(
    start: Launch, levels: Levels, tmp_path: Path, module: str, function: str, breached: set[str]
) -> None:
    code = f"def {function}(*arguments, **named):\n    return frozenset()\n"
    error = await start.refused(network=NetworkAccess((3128,)), **with_changes(levels, tmp_path, {module: code}))
    assert error.step == "self-check"
    assert breached <= {*error.message.partition("promises: ")[2].split(", ")}
