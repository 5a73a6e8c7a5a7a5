"""The effect of Ctrl-C while a command runs: the first ends it gently, the second at once, the third kills it.

SIGTERM and SIGHUP end it at once, as a service manager and a closed terminal want it. The running loop handles the
signals, and leaving restores the former handlers; a signal that was ignored before, as SIGHUP is below `nohup`, stays
so. `happened` shows a command that it was interrupted; the command decides what follows.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Self, TypeVar

import anyio

from paddock.cli.command_group import Interrupted
from paddock.cli.terminal.progress import ActivityLine
from paddock.cli.terminal.render import Screen

_Result = TypeVar("_Result")


@contextmanager
def _handled(acts: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Act on these signals on the running loop; the handlers from before are restored afterwards."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in acts}
    for number, act in acts.items():
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def on_interrupt(act: Callable[[], object]) -> AbstractContextManager[None]:
    """Call `act` on the running loop for each SIGINT; do not nest it.

    The handler from before is restored afterwards, unless it was one of the loop's.
    """
    return _handled({signal.SIGINT: act})


def _at_end(act: Callable[[signal.Signals], object]) -> dict[signal.Signals, Callable[[], object]]:
    """Return `act` for the signals that end a command; SIGHUP stays ignored where it was, as below `nohup`."""
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = (signal.SIGTERM,) if is_ignored else (signal.SIGTERM, signal.SIGHUP)
    return {number: partial(act, number) for number in numbers}


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP cancel the running task; SIGHUP stays ignored where it was, as below `nohup`.

    Raises:
        Interrupted: one of them did.
    """
    task = asyncio.current_task()
    assert task is not None
    by: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        by.append(number)
        task.cancel()

    with _handled(_at_end(end)):
        try:
            yield
        except asyncio.CancelledError:
            if not by:
                raise
            raise Interrupted(by[-1]) from None


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
        self._handling = ExitStack()

    def __enter__(self) -> Self:
        self._acts: dict[signal.Signals, Callable[[], object]] = {
            signal.SIGINT: self._on_interrupt,
            **_at_end(self._on_end),
        }
        self._handling.enter_context(_handled(self._acts))
        return self

    @property
    def end(self) -> Interrupted:
        """The end of the command, once something that ends it `happened`."""
        return Interrupted(self._by)

    def __exit__(self, *_: object) -> None:
        self._handling.close()

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
        self._handling.close()
        # The next one is for an impatient person, or for a shutdown that hangs.
        for number in self._acts:
            signal.signal(number, signal.SIG_DFL)
        self._say(said)
        self._stop_now()


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
