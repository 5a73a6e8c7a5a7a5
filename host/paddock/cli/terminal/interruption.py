"""What Ctrl-C means while a command runs: first end well, then end now, then be killed.

Signals are taken on the running loop and given back on leaving. SIGTERM ends now. A command learns from `happened`
that it was interrupted; what it does about that is its own.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio

from paddock.cli.terminal.progress import ActivityLine
from paddock.cli.terminal.render import Screen

_Result = TypeVar("_Result")

_GENTLE = "stopping once what is running now is done; Ctrl-C again stops at once"
_NOW = "stopping at once; Ctrl-C again kills"


class Interruption:
    """Turns signals into requests.

    Args:
        say: tells the person what a signal came to.
        stop_gently: asks what runs to come to an end; False when nothing runs that could.
        stop_now: ends it.
    """

    def __init__(
        self, say: Callable[[str], None], stop_gently: Callable[[], bool], stop_now: Callable[[], None]
    ) -> None:
        self.happened = False
        self._say = say
        self._stop_gently = stop_gently
        self._stop_now = stop_now
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for number, act in ((signal.SIGINT, self._on_interrupt), (signal.SIGTERM, self._end_now)):
            self._previous[number] = signal.getsignal(number)
            self._loop.add_signal_handler(number, act)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._give_back()

    def _on_interrupt(self) -> None:
        is_first, self.happened = not self.happened, True
        if is_first and self._stop_gently():
            self._say(_GENTLE)
        else:
            self._end_now()

    def _end_now(self) -> None:
        self.happened = True
        self._give_back()
        # The next one is for whoever has run out of patience, or when the way out itself hangs.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self._say(_NOW)
        self._stop_now()

    def _give_back(self) -> None:
        for number, handler in self._previous.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, handler)
        self._previous.clear()


async def interruptible(
    work: Callable[[], Coroutine[Any, Any, _Result]],
    screen: Screen,
    activity: Callable[[], str],
    *,
    on_stop: Callable[[], None] = lambda: None,
) -> _Result | None:
    """Return what `work` returns, None if it was interrupted; `activity` says what it is doing, in a few words.

    `on_stop` is called right before the work is cancelled.
    """

    def stop() -> None:
        on_stop()
        scope.cancel()

    with (
        anyio.CancelScope() as scope,
        Interruption(screen.note, lambda: False, stop),
        ActivityLine(screen, activity),
    ):
        return await work()
    return None
