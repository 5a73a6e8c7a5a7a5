"""Show Paddock's own log on the screen while a command runs.

Warnings of the host are for the person who runs the command: a refusal to a module, a handler in whose place the host
answered. The rest of the log repeats events and reports, and is shown on request. A record is one line, even if modules
chose names in it; the lines of a traceback are marked as such.
"""

from __future__ import annotations

import logging
from typing import Self

from paddock.cli.terminal.render import Screen

# `paddock_sources` works for the host. The hook registry runs in the host, so the person has to know of a guard that
# raised and was skipped.
_HOST_LOGS = ("paddock.", "paddock_sources.", "paddock_sdk.kernel.hooks")
_MAX_TRACEBACK_LINES = 60  # the failure is at its end


class LogLines(logging.Handler):
    """Writes records to `screen` while it is entered: those of the host from `level` on, others from errors on."""

    def __init__(self, screen: Screen, *, level: int = logging.WARNING, verbose: bool = False) -> None:
        super().__init__(level)
        self._screen = screen
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        is_host = record.name.startswith(_HOST_LOGS)
        if not (is_host or self._verbose or record.levelno >= logging.ERROR):
            return
        self._screen.warning(record.getMessage())
        if record.exc_info is not None and (record.levelno >= logging.ERROR or self._verbose):
            trace = self._screen.mask(logging.Formatter().formatException(record.exc_info)).splitlines()
            for line in trace[-_MAX_TRACEBACK_LINES:]:
                self._screen.warning(f"| {line}")

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
