"""What other threads of a module want done on its loop.

An action that was posted is done once, on the loop or inside a call that stands still there, also
when the box closes meanwhile; a box that is closed takes nothing. Reading it never takes longer
than what was in it when the reading began, so threads cannot keep the loop from its other work.
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
        """Have `action` done on the loop; return whether the box still takes any. From any thread."""
        with self._lock:
            if self._is_open:
                self._actions.append(action)
                os.eventfd_write(self.fd, 1)
            return self._is_open

    def on_readable(self) -> None:
        """Do what is there, on the loop."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return
        self._do_what_is_there()

    def close(self) -> None:
        """Take nothing more, and do what was taken."""
        with self._lock:  # no thread is writing to the descriptor, and none will
            self._is_open = False
            os.close(self.fd)
        self._do_what_is_there()

    def _do_what_is_there(self) -> None:
        for _ in range(len(self._actions)):  # what comes meanwhile makes the descriptor readable anew
            action = self._actions.popleft()
            try:
                action()
            except Exception:  # what is being done here meanwhile has nothing to do with it
                _log.exception("what another thread wanted of the host could not be done")
