"""A worker in JavaScript, written from `sdk/PROTOCOL.md` alone, under a scripted host and under the real kernel."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.methods import HostMethod, MirrorSection, WorkerMethod
from sdk.worker.scripted_host import ScriptedHost

from .conftest import Hosted

_ROOT = Path(__file__).parents[3]
_FIXTURES = _ROOT / "tests" / "fixtures" / "wire"
_NODE = shutil.which("node")
_PLACE = {"import_root": "/m", "libraries": [], "package": "counter", "attribute": "mount", "config": {"a": 1.0}}
_ODD = {"__proto__": {"by": 1}, "constructor": 2, 1: "integer", "1": "text", None: b"\xff", (1, "a"): {2**64, 2**63}}

pytestmark = pytest.mark.skipif(_NODE is None, reason="there is no node on the path")

Start = Callable[[], tuple[socket.socket, "subprocess.Popen[bytes]"]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the worker; returns the host's end of its socket, and its process."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [str(_NODE), str(_FIXTURES / "worker.mjs"), str(theirs.fileno())]
            started.append(subprocess.Popen(command, pass_fds=[theirs.fileno()]))
        return ours, started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_its_reader_reads_and_refuses_every_vector() -> None:
    with (_ROOT / "sdk" / "protocol-vectors.json").open("rb") as vectors:
        checked = subprocess.run(
            [str(_NODE), str(_FIXTURES / "check.mjs")], stdin=vectors, capture_output=True, check=True
        )
    assert checked.stdout == b"[]\n"


def test_it_lives_through_a_session_of_a_scripted_host(start: Start) -> None:
    sock, process = start()
    host = ScriptedHost(sock)
    assert host.value(host.greet(frame_max=1 << 20))["protocol"] == 1
    host.mirror(MirrorSection.SESSION, {"session_id": "s", "session": host.own(3), "config": _ODD})
    mounting = host.request(0, WorkerMethod.MOUNT, raw=_PLACE)
    request = host.request_from_worker(HostMethod.MOUNT)
    point, name, tool = host.value(request)
    assert (point, name, request.parent) == ("tools", "counter", mounting)
    assert host.description(tool).attributes["input_schema"] == {"type": "object"}
    host.respond(request.id)
    assert host.answer(mounting) == {"mounted": True, "on_session_ready": False}
    odd = host.request(tool.id, 0, {**_ODD, "by": 2})
    assert host.answer(odd) == ToolResult(output=2)
    assert host.answer(host.request(tool.id, 0, raw=[[], {"input": {"by": 3}}, {"dispatch_context": {}}])).output == 5
    assert not host.answer(host.request(tool.id, 0, {})).success
    waiting = host.request(tool.id, 0, {"by": "a while"})
    for target, method, body in (
        (0, 99, b"\xc0"),
        (tool.id, 7, b"\x92\x90\x80"),
        (tool.id, 0, b"\xc1"),
        (9, 0, b"\xc0"),
    ):
        id, frame = host.connection.send_request(target, method, body)
        host.write(frame)
        with pytest.raises(RuntimeError):
            host.answer(id)
    host.write(host.connection.send_cancel(waiting))
    assert host.answer(host.request(tool.id, 0, {"by": 1})) == ToolResult(output=6)
    host.write(host.connection.send_release(tool.id, 1))
    confirmed = host.take(Kind.RELEASE)
    assert (confirmed.id, confirmed.target) == (tool.id, 0)
    host.write(host.connection.send_goodbye())
    assert process.wait(60) == 0
    host.close()


async def test_the_kernel_mounts_it_calls_it_and_tells_it_what_does_not_fit(start: Start, hosted: Hosted) -> None:
    module = hosted.add("tool", "tool-counter")
    supervisor: Any = module.supervisor

    async def started() -> SimpleNamespace:
        ours, process = start()
        ours.setblocking(False)
        supervisor.workers.append(SimpleNamespace(close=process.kill))
        ready, ended = SimpleNamespace(lockdown=SimpleNamespace(level="none")), asyncio.Event()
        supervisor.process = SimpleNamespace(
            rpc=ours, ready=ready, wait=ended.wait, ended=ended, pid=process.pid, last_attempts=(), init_pid=0
        )
        return supervisor.process

    supervisor.start = started
    await module.start()
    execute: Any = hosted.coordinator.get("tools", "counter").execute
    assert (await execute({"by": 2})).output == 2
    assert (await execute(input={"by": 3})).output == 5
    with pytest.raises(UnfitValueError, match=r"ToolResult\.error"):
        await execute({"by": "a text for an error"})
    assert (await execute({"by": 1})).output == 6
    assert not module.reports
