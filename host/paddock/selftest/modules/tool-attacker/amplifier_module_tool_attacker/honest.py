"""The acts of an honest module while another one attacks: it handles events slowly, and writes shared state."""

from __future__ import annotations

import asyncio
import time
from typing import Any

HEARD = "attack:heard"  # an event that it handles slowly
WRITES = "attack:writes"  # an event that starts its writing
WRITTEN = "attack.written"  # the key of session_state that it writes
_SECONDS = 0.01  # for an event; its loop blocks meanwhile, as in many modules
_TIMES = 40
_MIB = 1 << 20
_writing: set[asyncio.Task[None]] = set()


def listen(session: Any) -> None:
    """Register for both events."""
    from paddock_sdk.contract.models import HookResult  # pydantic: not before it is needed

    async def hear(event: str, data: dict[str, Any]) -> HookResult:
        time.sleep(_SECONDS)  # noqa: ASYNC251 - as above
        return HookResult()

    async def write(event: str, data: dict[str, Any]) -> HookResult:
        task = asyncio.get_running_loop().create_task(_write(session))
        _writing.add(task)
        task.add_done_callback(_writing.discard)
        return HookResult()

    session.hooks.register(HEARD, hear, name="honest")
    session.hooks.register(WRITES, write, name="honest")


async def _write(session: Any) -> None:
    """Write a mebibyte so many times, and record the time of each."""
    written: list[float] = []
    for number in range(_TIMES):
        await asyncio.sleep(_SECONDS)
        written.append(time.monotonic())
        text = "x" * _MIB
        session.session_state[WRITTEN] = {"times": list(written), "text": text, "is_all": number == _TIMES - 1}
        session.hooks.list_handlers(HEARD)  # a request to the host, before which the change is sent
