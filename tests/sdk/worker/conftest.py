"""A worker's runtime on the test's own loop, and a scripted host in a thread at its other end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from paddock_sdk.protocol import HandleEntry
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.attempts.attempt_log import SIZE, AttemptLog
from paddock_sdk.worker.attempts.noticing import AttemptRecorder
from paddock_sdk.worker.main import Worker

from .scripted_host import SECONDS, ScriptedHost

Script = Callable[[ScriptedHost], Any]


class Rig:
    """A worker and its host, with the sockets of both and the memory in which the worker's attempts are noted."""

    def __init__(self, sockets: tuple[socket.socket, socket.socket], thread: concurrent.futures.Executor) -> None:
        self.sockets = sockets
        self.host = ScriptedHost(sockets[0])
        self.log_memory = memoryview(bytearray(SIZE))
        self.attempts = AttemptRecorder(AttemptLog(self.log_memory))
        self.worker = Worker(sockets[1], "scripted", self.attempts)
        self.driver = self.worker.driver
        runtime: Any = self.driver.receiver
        self.objects = self.driver.objects
        self.coordinator = runtime.coordinator
        self._thread = thread

    def start(self, script: Script) -> concurrent.futures.Future[Any]:
        """Let the host play `script` in its thread, from now on."""
        return self._thread.submit(script, self.host)

    async def play(self, script: Script) -> Any:
        """Let the host play `script` to its end, and return what it returns."""
        return await asyncio.wrap_future(self.start(script))

    @contextlib.asynccontextmanager
    async def playing(self, script: Script) -> AsyncIterator[concurrent.futures.Future[Any]]:
        """Let the host play `script` beside the body, and to its end."""
        played = self.start(script)
        yield played
        await asyncio.wrap_future(played)

    async def export(self, value: object) -> HandleEntry:
        """Have the worker hand an object to the host; return how the host came to know it."""

        def receive(host: ScriptedHost) -> HandleEntry:
            request = host.request_from_worker(HostMethod.REGISTER_CAPABILITY)
            host.respond(request.id)
            return request.handles[0]

        async with self.playing(receive) as received:
            self.coordinator.register_capability("exported", value)
        return received.result()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    with concurrent.futures.ThreadPoolExecutor(1, "host") as thread, anyio.fail_after(2 * SECONDS):
        made = Rig((ours, theirs), thread)
        running = asyncio.ensure_future(made.worker.run())
        await made.play(lambda host: host.greet())
        try:
            yield made
        finally:
            await made.play(lambda host: host.close())
            await running
    assert not problems, problems


async def until(condition: Callable[[], object]) -> None:
    """Return when `condition` holds; it is looked at after each step of the loop."""
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0)
