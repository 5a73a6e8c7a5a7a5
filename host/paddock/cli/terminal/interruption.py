"""The effect of Ctrl-C while a command runs: the first ends it gently, the second at once, the third kills it.

SIGTERM and SIGHUP end it at once, as a service manager and a closed terminal want it. The running loop handles the
signals, and leaving restores the former handlers; a signal that was ignored before, as SIGHUP is below `nohup`, stays
so. `happened` shows a command that it was interrupted; the command decides what follows.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Self, TypeVar

import anyio

from paddock.cli.command_group import Interrupted
from paddock.cli.terminal.progress import ActivityLine
from paddock.cli.terminal.render import Screen

_Result = TypeVar("_Result")


@contextmanager
def on_interrupt(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` on the running loop for each SIGINT; do not nest it.

    The handler from before is restored afterwards, unless it was one of the loop's.
    """
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def _ending_signals() -> tuple[signal.Signals, ...]:
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGTERM,) if is_ignored else (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP cancel the running task; SIGHUP stays ignored where it was, as below `nohup`.

    Raises:
        Interrupted: one of them did.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    by: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        by.append(number)
        task.cancel()

    before = {number: signal.getsignal(number) for number in _ending_signals()}
    for number in before:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    except asyncio.CancelledError:
        if not by:
            raise
        raise Interrupted(by[-1]) from None
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


_GENTLE = "stopping once what is running now is done; Ctrl-C again stops at once"
_NOW = "stopping at once; Ctrl-C again kills"
_BY_SIGNAL = "{}: stopping the modules, then ending; a second {} kills"


class Interruption:
    """Turns signals into requests.

    Args:
        say: shows the person the effect of a signal.
        stop_gently: requests an end of the running work; returns False when nothing could end.
        stop_now: ends it.
    """

    def __init__(
        self, say: Callable[[str], None], stop_gently: Callable[[], bool], stop_now: Callable[[], None]
    ) -> None:
        self.happened = False
        self._by: signal.Signals | None = None
        self._say = say
        self._stop_gently = stop_gently
        self._stop_now = stop_now
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, *_ending_signals()):
            self._previous[number] = signal.getsignal(number)
            act = self._on_interrupt if number is signal.SIGINT else partial(self._on_end, number)
            self._loop.add_signal_handler(number, act)
        return self

    @property
    def end(self) -> Interrupted:
        """The end of the command, once something that ends it `happened`."""
        return Interrupted(self._by)

    def __exit__(self, *_: object) -> None:
        self._give_back()

    def _on_interrupt(self) -> None:
        is_first, self.happened = not self.happened, True
        if is_first and self._stop_gently():
            self._say(_GENTLE)
        else:
            self._end_now(_NOW)

    def _on_end(self, number: signal.Signals) -> None:
        self._by = self._by or number
        self._end_now(_BY_SIGNAL.format(number.name, number.name))

    def _end_now(self, said: str) -> None:
        self.happened = True
        handled = tuple(self._previous)
        self._give_back()
        # The next one is for an impatient person, or for a shutdown that hangs.
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        self._say(said)
        self._stop_now()

    def _give_back(self) -> None:
        for number, handler in self._previous.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, handler)
        self._previous.clear()


async def interruptible(
    work: Callable[[], Coroutine[Any, Any, _Result]],
    screen: Screen,
    activity: Callable[[], str] | None = None,
    *,
    on_stop: Callable[[], None] = lambda: None,
) -> _Result:
    """Return the result of `work`; `activity`, if it is given, describes the work in a few words.

    `on_stop` is called right before the work is cancelled.

    Raises:
        Interrupted: a person or a signal ended it.
    """

    def stop() -> None:
        on_stop()
        scope.cancel()

    with (
        anyio.CancelScope() as scope,
        Interruption(screen.note, lambda: False, stop) as interruption,
        nullcontext() if activity is None else ActivityLine(screen, activity),
    ):
        return await work()
    raise interruption.end
