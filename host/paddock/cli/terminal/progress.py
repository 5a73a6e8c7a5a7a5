"""Show what a command is waiting for, on a terminal, once it takes longer than a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from paddock.cli.terminal.render import Screen

if TYPE_CHECKING:
    from paddock.session.session import Session

_PATIENCE: Final = 1.0  # seconds without a line; shorter waits need none
_PERIOD: Final = 0.25  # seconds between two checks of the activity


class ActivityLine:
    """Shows `activity()` while it is entered; off a terminal it does nothing."""

    def __init__(self, screen: Screen, activity: Callable[[], str]) -> None:
        self._screen = screen
        self._activity = activity
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._screen.is_terminal:
            self._timer = asyncio.get_running_loop().call_later(_PATIENCE, self._show)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._screen.hide_status()

    def _show(self) -> None:
        self._screen.show_status(self._activity())
        self._timer = asyncio.get_running_loop().call_later(_PERIOD, self._show)


def activity_of(session: Session) -> str:
    """Return what a session waits for while it is opened or runs a turn."""
    modules = session.modules
    starting = next((one.module for one in modules if not (one.is_mounted or one.problem)), None)
    if starting is not None or not modules:
        return f"starting {starting or 'the modules'}"
    return f"waiting for {', '.join(session.coordinator.cancellation.running_tool_names) or 'the answer'}"
