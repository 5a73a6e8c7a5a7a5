"""A worker with a loopback of its own serves itself there, and reaches no socket that anybody else listens at."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest

from host.workers.conftest import Launch, by
from host.workers.levels import BWRAP, NS, WORKERS, Way
from host.workers.test_isolation_levels import outcomes
from host.workers.test_worker_network import NEVER, PORTS, told_by, with_acts, with_its_own_network
from host.workers.waiting import PATIENCE, answer
from paddock.selftest.testbed.listeners import arrived
from paddock_sandbox import self_check
from paddock_sandbox.profile import Mount, NetworkAccess, SandboxProfile
from support.examples import IN_FULL

SERVES = NetworkAccess((), serves=True)
_EVERY_KIND = {
    ("tcp", "loopback"): "hello",
    ("udp", "loopback"): "hello",
    ("stream", "/tmp/own.sock"): "hello from itself",
    ("packets", "/tmp/packets.sock"): "hello from itself",
    ("stream", "\0abstract"): "hello from itself",
}
_CALLS = ("connect", "sendto", "sendmsg", "sendmsg from a pair")


once_a_level = by(NS, BWRAP)


class Others:
    """Sockets that somebody outside listens at, in a folder that a worker is granted."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._sockets: list[socket.socket] = []
        self.stream, self.datagrams = self.add("docker.sock", "stream"), self.add("control.sock", "datagrams")

    def add(self, name: str, kind: str) -> str:
        """Listen at a name, and return its path."""
        one = self._stack.enter_context(worker().socket_of(kind))
        path = self.folder / name
        one.bind(str(path))
        path.chmod(0o777)
        if kind == "stream":
            one.listen(128)
        one.setblocking(False)
        self._sockets.append(one)
        return str(path)

    def came(self) -> int:
        """Return how many connections and messages have arrived since the last look."""
        return sum(map(arrived, self._sockets))


def worker() -> ModuleType:
    """Return the code of the test worker, whose acts are tried outside as well."""
    spec = importlib.util.spec_from_file_location("paddock_test_worker_outside", WORKERS / "paddock_test_worker.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Others]:
    folder = tmp_path / "granted"
    folder.mkdir()
    folder.chmod(0o777)
    with ExitStack() as stack:
        yield Others(folder, stack)


def granted(others: Others, target: str = "/granted") -> list[Mount]:
    return [Mount(str(others.folder), target, writable=True)]


@with_its_own_network
async def test_a_worker_with_a_loopback_serves_itself_by_every_kind(start: Launch) -> None:
    acts = [("talk", *kind) for kind in _EVERY_KIND]
    assert await outcomes(start, *acts, network=SERVES) == list(_EVERY_KIND.values())


@once_a_level
async def test_without_the_grant_none_of_these_can_even_be_made(start: Launch) -> None:
    assert {*await outcomes(start, *(("talk", *kind) for kind in _EVERY_KIND))} == {"EACCES"}


@with_its_own_network
async def test_the_self_check_shows_that_the_loopback_is_alone(start: Launch, way: Way) -> None:
    ready = (await start(network=SERVES)).ready
    profile = SandboxProfile(way.level, network=SERVES)
    assert self_check.breaches(profile, ready.verdicts) == ()
    assert ready.verdicts["another address"] == "ENOENT"
    assert ready.verdicts["other descriptors"] == "ENOENT"
    assert {"another address", "a file by path"} <= {*self_check.breaches(profile, {})}


@with_its_own_network
async def test_no_socket_that_others_listen_at_is_reached(start: Launch, others: Others) -> None:
    paths = (others.stream, others.datagrams)
    for call in _CALLS:
        assert worker().reach(call, paths[call != "connect"]) == "done"
    assert others.came() == len(_CALLS)  # outside, each of them arrives
    inside = [path.replace(str(others.folder), "/granted") for path in paths]
    links = [f"/tmp/{number}" for number in (0, 1)]
    acts = [
        *(("symlink", path, link) for path, link in zip(inside, links, strict=True)),
        *(("reach by", call, names[call != "connect"]) for names in (inside, links) for call in _CALLS),
        ("link", inside[0], "/tmp/hard"),
        ("rename", inside[0], "/tmp/moved"),
        ("rename", inside[0], "/granted/moved.sock"),
        ("reach by", "connect", "/granted/moved.sock"),
    ]
    told = await outcomes(start, *acts, network=SERVES, mounts=granted(others))
    assert told[2:10] == ["ENOENT", "EACCES", "EACCES", "EACCES"] * 2
    assert told[10:] == ["EXDEV", "EXDEV", "EACCES", "ENOENT"]  # to make a socket, by any call, is refused
    assert others.came() == 0


@once_a_level
async def test_a_socket_that_others_make_later_is_not_reached(start: Launch, others: Others) -> None:
    process = await start(
        "tries_when_told",
        environ=(("ACTS", json.dumps([("reach by", "connect", "/granted/later.sock")])),),
        network=SERVES,
        mounts=granted(others),
    )
    others.add("later.sock", "stream")
    process.rpc.send(b"go")
    assert json.loads(await answer(process)) == ["ENOENT"]
    assert others.came() == 0


@once_a_level
@pytest.mark.parametrize("what", ["memory", "link", "descriptor", "signals"])
async def test_no_race_leads_a_connection_to_what_others_listen_at(start: Launch, others: Others, what: str) -> None:
    seconds = 1.0 if IN_FULL else 0.3  # as long as one outside
    race = ("race", what, "/tmp/own.sock", "/granted/docker.sock", seconds)
    told = await outcomes(start, race, network=SERVES, mounts=granted(others))
    assert others.came() == 0
    assert "ok" in told[0].split(",") or what == "descriptor"
    assert {*told[0].split(",")} <= {"ok", "ENOENT", "EINTR", "EINVAL", "ENOTSOCK", "EAFNOSUPPORT", "EBADF", "EAGAIN"}


@pytest.mark.parametrize("what", ["memory", "link"])
async def test_outside_such_a_race_is_won(others: Others, tmp_path: Path, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not others.came():
        assert time.monotonic() < deadline
        racing = (
            "import sys, paddock_test_worker as it; print(it.race(*sys.argv[1:4], 0.3), flush=True); it.os._exit(0)"
        )
        command = [sys.executable, "-c", racing, what, str(tmp_path / f"{what}.sock"), others.stream]
        (tmp_path / f"{what}.sock").unlink(missing_ok=True)
        subprocess.run(command, cwd=WORKERS, capture_output=True, check=True, timeout=PATIENCE)


@by(NS)
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_a_granted_folder_in_the_place_of_the_private_one_is_not_private(
    start: Launch, others: Others, place: str
) -> None:
    acts = [("reach by", "connect", f"{place}/docker.sock"), ("bind", "stream", f"{place}/mine.sock")]
    told = await outcomes(start, *acts, network=SERVES, mounts=granted(others, place))
    assert told == ["ENOENT", "ENOENT"]
    assert others.came() == 0
    assert sorted(path.name for path in others.folder.iterdir()) == ["control.sock", "docker.sock"]


@once_a_level
async def test_a_socket_of_its_own_can_only_be_made_in_the_private_folder(start: Launch, others: Others) -> None:
    acts = [("bind", "stream", f"{folder}/mine.sock") for folder in ("/granted", "/", "/etc", "relative", "/tmp")]
    told = await outcomes(start, *acts, network=SERVES, mounts=granted(others))
    assert {*told[:-1]} <= {"ENOENT", "EROFS"}
    assert told[-1] == "ok"
    assert not (others.folder / "mine.sock").exists()


@with_its_own_network
async def test_what_else_a_socket_could_be_stays_refused(start: Launch) -> None:
    served = (("socket", socket.AF_UNIX, socket.SOCK_STREAM), ("listen",))
    acts = {act: refusal for act, refusal in NEVER.items() if act not in served}
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        acts["socket", socket.AF_UNIX, kind] = "EACCES"
    assert await outcomes(start, *acts, network=SERVES) == list(acts.values())


@with_its_own_network
async def test_the_loopback_is_another_than_the_machines(start: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            outside.accept()[0].close()
        outside.setblocking(False)
        acts = [("reach", "127.0.0.1", port), ("reach", "198.51.100.1", 80), ("bind", "tcp", "127.0.0.1", port)]
        assert await outcomes(start, *acts, network=SERVES) == ["ECONNREFUSED", "ENETUNREACH", "ok"]
        with pytest.raises(BlockingIOError):
            outside.accept()


@with_its_own_network
async def test_beside_granted_hosts_their_ports_are_taken(start: Launch) -> None:
    acts = [
        ("reach", "198.18.0.7", 443),
        ("talk", "tcp", "loopback"),
        ("bind", "tcp", "127.0.0.1", 8080),
        ("bind", "tcp", "127.0.0.1", 8081),
        ("bind", "tcp", "127.0.0.1", 443),
    ]
    told = await told_by(await with_acts(start, *acts, network=NetworkAccess(PORTS, serves=True)))
    assert told == ["198.18.0.7:443", "hello", "EADDRINUSE", "ok", "EACCES"]


@once_a_level
async def test_the_broker_keeps_nothing_that_is_no_socket(start: Launch) -> None:
    assert await outcomes(start, ("connect a pipe",), network=SERVES) == ["closed"]


@with_its_own_network
async def test_the_buffers_of_connections_do_not_grow(start: Launch) -> None:
    """By themselves they would, to ten mebibytes, and nothing counts them but the watchdog."""
    most = 2 * 106_496
    assert await outcomes(start, ("buffers", "bound"), ("buffers", "left"), network=SERVES) == [str(most)] * 2
    assert worker()._buffers("bound") != str(most)
