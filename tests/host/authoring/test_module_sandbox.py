"""What a test is given of a module says what it says on the host's loop, whichever thread the test runs in."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio.from_thread

from paddock.authoring.module_sandbox import PortalCaller


class _Watched:
    """Values and calls that note on which threads they are used."""

    def __init__(self) -> None:
        self.marshaller = self
        self.threads: list[int] = []

    def _note(self) -> None:
        self.threads.append(threading.get_ident())

    def encode(self, value: object, *, share: bool) -> object:
        self._note()
        return value

    def decode(self, message: object) -> object:
        self._note()
        return message

    async def call_value(self, handle: object, method: int, message: object) -> object:
        self._note()
        return message

    async def stream(self, handle: object, method: int, message: Any) -> AsyncIterator[object]:
        for item in message:
            self._note()
            yield item


async def test_values_are_encoded_and_decoded_on_the_hosts_loop_alone() -> None:
    watched: Any = _Watched()
    with anyio.from_thread.start_blocking_portal("asyncio") as portal:
        caller = PortalCaller(portal, watched, SimpleNamespace())  # type: ignore[arg-type]
        assert [item async for item in caller.stream(1, 0, ["a", "b"])] == ["a", "b"]
        assert await caller.call(1, 0, "c") == "c"
        assert caller.call_sync(1, 0, "d") == "d"
        assert {*watched.threads} == {portal.call(threading.get_ident)}
    assert len(watched.threads) == 9
