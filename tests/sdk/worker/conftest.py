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
from paddock_sdk.worker.main import Worker

from .scripted_host import SECONDS, ScriptedHost

Script = Callable[[ScriptedHost], Any]


class Rig:
    """A worker and its host."""

    def __init__(self, worker: Worker, host: ScriptedHost, thread: concurrent.futures.Executor) -> None:
        self.worker = worker
        self.host = host
        self.driver = worker._driver
        runtime: Any = worker._driver.receiver
        self.objects = worker._driver.objects
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
    host = ScriptedHost(ours)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    with concurrent.futures.ThreadPoolExecutor(1, "host") as thread, anyio.fail_after(2 * SECONDS):
        worker = Worker(theirs, "scripted")
        running = asyncio.ensure_future(worker.run())
        made = Rig(worker, host, thread)
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
