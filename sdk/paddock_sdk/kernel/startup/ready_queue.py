"""The part of a loader that queues modules' functions to call when everything is mounted."""

from __future__ import annotations

from paddock_sdk.kernel.loading import ReadyCallback

__all__ = ["ReadyQueue"]


class ReadyQueue:
    """A `SessionReadyQueue`, to inherit from or to have."""

    def __init__(self) -> None:
        self._ready_queue: list[tuple[str, ReadyCallback]] = []

    def get_on_session_ready_queue(self) -> list[tuple[str, ReadyCallback]]:
        """Return the `on_session_ready` of each mounted module that has one, in the order they were mounted."""
        return list(self._ready_queue)

    def enqueue_on_session_ready(self, module_id: str, fn: ReadyCallback) -> None:
        """Add one at the end."""
        self._ready_queue.append((module_id, fn))

    def clear_on_session_ready_queue(self) -> None:
        """Forget them all."""
        self._ready_queue.clear()
