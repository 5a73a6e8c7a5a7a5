"""The end of one search: when its time is up, or when its caller waits no longer."""

from __future__ import annotations

import threading
import time


class Deadline:
    """Checked between two files, from the thread that searches."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds
        self._stopped = threading.Event()

    @property
    def left(self) -> float:
        """The remaining seconds, at least 0."""
        return 0.0 if self._stopped.is_set() else max(0.0, self._ends - time.monotonic())

    def stop(self) -> None:
        """End the search at its next file."""
        self._stopped.set()
