"""One host for many sessions of a process: they share what starts processes and what watches them, and nothing else.

A host belongs to one operator. It is no border between people: its end ends each of its sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Self

from paddock.isolation.sandbox_host import SandboxHost
from paddock.workers.capacity import check_event_loop


class Host:
    """Starts the processes of many sessions, one after the other or at the same time.

    `async with Host() as host:`, then `Session(plan, host=host)` as often as wanted. Each session keeps its own policy,
    environment, secrets, folder and certificates; a session that ends leaves nothing on the host. It is used in the
    event loop that it was entered in.
    """

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._sandbox_host: SandboxHost | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        """Begin to load what workers are forked from.

        Raises:
            KindError: the system does not leave it what it needs, or runs another event loop than asyncio's.
            RuntimeError: it was entered before.
        """
        check_event_loop()
        if self._loop is not None:
            raise RuntimeError("the host was entered before; make another one")
        self._loop = asyncio.get_running_loop()
        self._sandbox_host = await self._stack.enter_async_context(SandboxHost.started())
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sandbox_host = None
        await self._stack.aclose()

    @asynccontextmanager
    async def part(self) -> AsyncIterator[SandboxHost]:
        """Provide the host to one session, with a folder of its own.

        Raises:
            RuntimeError: the host is not open, or belongs to another event loop.
        """
        if self._sandbox_host is None:
            raise RuntimeError("the host is not open; use `async with Host() as host:` around its sessions")
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("the host belongs to another event loop; enter one in the loop of its sessions")
        async with self._sandbox_host.part() as part:
            yield part
