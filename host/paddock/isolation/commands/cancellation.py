"""The cancellation of a task, for the thread that works for it."""

from __future__ import annotations

import anyio
import anyio.from_thread


def check_cancelled() -> None:
    """Raise if the task that started this thread was cancelled; in other threads never raise."""
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        pass
