"""Wait for work that a person may interrupt, and finish what must not be interrupted.

The session's cancellation token can only be polled: its callbacks run when the orchestrator itself triggers them, so
nothing wakes a waiting loop. Every wait here ends with its tasks finished, or cancelled and given `GRACE` seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.05  # seconds; a person takes it for immediate, at twenty attribute reads a second
GRACE = 5.0  # seconds; only work that swallows its cancellation runs this out


class Cancellation:
    """The state of the session's cancellation token; never cancelled without a token."""

    def __init__(self, coordinator: Any | None) -> None:
        self._token = getattr(coordinator, "cancellation", None)

    @property
    def requested(self) -> bool:
        """Whether the person asked to stop, now or after the running work."""
        return self._token is not None and bool(self._token.is_cancelled)

    @property
    def immediate(self) -> bool:
        """Whether the person asked to stop the running work."""
        return self._token is not None and bool(self._token.is_immediate)

    @property
    def state(self) -> str:
        return "none" if self._token is None else str(self._token.state)

    @property
    def poll_interval(self) -> float | None:
        return None if self._token is None else POLL_INTERVAL

    def tool_started(self, call_id: str, name: str) -> None:
        if self._token is not None:
            self._token.register_tool_start(call_id, name)

    def tool_ended(self, call_id: str) -> None:
        if self._token is not None:
            self._token.register_tool_complete(call_id)

    async def trigger_callbacks(self) -> None:
        if self._token is not None:
            await self._token.trigger_callbacks()


async def wait_all(tasks: Iterable[asyncio.Task[Any]], cancellation: Cancellation) -> None:
    """Wait until the tasks are done, or an immediate cancellation is requested; then cancel the rest."""
    pending = set(tasks)
    try:
        while pending and not cancellation.immediate:
            _, pending = await asyncio.wait(pending, timeout=cancellation.poll_interval)
    finally:
        if pending:
            await finish(_stop(pending))


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run the work to its end even when the caller is cancelled meanwhile, for at most `GRACE` seconds more.

    Raises:
        CancelledError: the caller was cancelled meanwhile; raised once the work is over.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    deadline = loop.time() + GRACE + 1.0  # a margin, so that the bounded wait of `_stop` can report first
    cancelled = False
    while not task.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait((task,), timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if task.done():
        task.result()
    else:
        task.cancel()
        logger.warning("gave up waiting for the last steps of a turn")
    if cancelled:
        raise asyncio.CancelledError


async def _stop(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    ended, stuck = await asyncio.wait(tasks, timeout=GRACE)
    for task in ended:
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it as forgotten
    for task in stuck:
        logger.warning("%s did not stop within %.0f s of being cancelled", task.get_name(), GRACE)
