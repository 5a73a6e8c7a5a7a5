"""Actions that other threads of a module post to its loop.

A posted action is done once, on the loop or inside a synchronous call that blocks it, also when the box closes
meanwhile; a closed box accepts nothing. Reading the box handles only the actions that were in it when the reading
began, so threads cannot keep the loop from its other work.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Mailbox:
    """Actions on their way to the loop; `fd` is readable while there are any."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._actions: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()
        self._is_open = True

    def post(self, action: Callable[[], object]) -> bool:
        """Post `action` to the loop, from any thread; return whether the box still accepts actions."""
        with self._lock:
            if self._is_open:
                self._actions.append(action)
                os.eventfd_write(self.fd, 1)
            return self._is_open

    def on_readable(self) -> None:
        """Run the posted actions, on the loop."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return
        self._do_what_is_there()

    def close(self) -> None:
        """Accept nothing more, and run what was accepted."""
        with self._lock:  # no thread is writing to the descriptor, and none will
            self._is_open = False
            os.close(self.fd)
        self._do_what_is_there()

    def _do_what_is_there(self) -> None:
        for _ in range(len(self._actions)):  # later actions make the descriptor readable again
            action = self._actions.popleft()
            try:
                action()
            except Exception:  # the action is unrelated to the code that runs it
                _log.exception("what another thread wanted of the host could not be done")
