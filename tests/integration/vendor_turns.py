"""A turn of a shipped provider that is cancelled in the middle of its answer, and one whose first tries fail."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread

from integration.community import Heard, until
from paddock import Session
from vendors.server import VendorServer


def faults(after: int) -> list[dict[str, Any]]:
    """Return the faults of a turn: `cancel_in_the_midst` takes the first, and the rest are what the next turn meets.

    The answer stalls `after` so many events, in both.
    """
    stall = {"kind": "stall", "after": after}
    return [stall, {"kind": "rate_limit", "retry_after": "0.05"}, {"kind": "cut"}, stall]


async def cancel_in_the_midst(session: Session, heard: list[Heard], server: VendorServer) -> None:
    """Cancel a turn of which one piece was heard, and wait until the connection to the server is closed."""
    async with anyio.create_task_group() as group:
        group.start_soon(session.execute, "begin")
        await until(heard)
        session.cancel(immediate=True)
    await anyio.to_thread.run_sync(server.wait_until, lambda: server.answers[0].is_abandoned)
    session.coordinator.cancellation.reset()
    heard.clear()


def assert_tried_again(retries: list[Heard]) -> None:
    """Assert that the faults of one turn were waited for, and announced."""
    told = [(one.data["error"]["type"], one.data["attempt"], one.data["retry_after"]) for one in retries]
    assert told == [("RateLimitError", 1, 0.05), ("NetworkError", 2, None)]
    assert 0.05 <= retries[0].data["delay"] <= 0.1
