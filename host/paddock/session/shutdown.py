"""The end of a session: how long each module may take over it.

Handlers of `session:end` and cleanup functions run one after the other, in the contract's order. Each module's own time
is bounded. A module that exceeds it is cut short and left out from then on, which is reported; the others keep their
full time. If a module emits events during its end, the hooks' handling takes that module's time, so little is left for
it. The application's own handlers and functions are bounded as well; their time stands still while a module takes its
time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

import anyio

from paddock.time_limit import while_running

T = TypeVar("T")
ShutdownPhase = Literal["session:end", "cleanup functions", "what others emit"]

# One that hangs keeps the others waiting for about as long as containers are usually given between being asked to end
# and being killed, and half as long again if it does so twice.
_SECONDS: Final[dict[ShutdownPhase, float]] = {"session:end": 10.0, "cleanup functions": 5.0, "what others emit": 3.0}
_OF_THE_APPLICATION: Final = 15.0
_HURRIED: Final = 1.0  # of a session that is ended ahead of time

_log = logging.getLogger(__name__)


class ShutdownDeadlines:
    """The end of one session, under way or still to come."""

    def __init__(self) -> None:
        self._application: anyio.CancelScope | None = None  # there is one while the end is under way
        self._is_hurried = False
        self._left: dict[tuple[str, ShutdownPhase], float] = {}
        self._late: set[tuple[str, ShutdownPhase]] = set()

    @property
    def is_under_way(self) -> bool:
        return self._application is not None

    async def run(self, end: Callable[[], Awaitable[None]], *, is_hurried: bool = False) -> None:
        """Run all steps of the end, also when the waiting task is cancelled."""
        self._is_hurried = is_hurried
        with anyio.CancelScope(shield=True), while_running(anyio.move_on_after(_OF_THE_APPLICATION)) as own:
            self._application = own
            try:
                await end()
            finally:
                self._application = None
        if own.cancelled_caught:
            _log.warning("the application did not finish within %g s; its session ends without it", _OF_THE_APPLICATION)

    async def run_within(
        self,
        name: str,
        part: ShutdownPhase,
        act: Callable[[], Awaitable[T]],
        late: T,
    ) -> T:
        """Run a module's part of the end within its own time; return `late` if that is over.

        Before the end there is no such bound.
        """
        application = self._application
        if application is None:
            return await act()
        whose, seconds = (name, part), _HURRIED if self._is_hurried else _SECONDS[part]
        left = self._left.get(whose, seconds)
        if left <= 0:
            return late
        is_asked_here = part != "what others emit"  # and by no module, which waits in its own time
        if is_asked_here:
            application.deadline += left
        began = anyio.current_time()
        with while_running(anyio.move_on_after(left)) as own:
            try:
                return await act()
            finally:
                took = min(left, anyio.current_time() - began)
                self._left[whose] = self._left.get(whose, left) - took
                if is_asked_here:
                    application.deadline -= left - took
        if own.cancelled_caught and whose not in self._late:
            self._late.add(whose)
            message = "module `%s` did not finish with %s within %g s; the session ends without waiting for it"
            _log.warning(message, name, part, seconds)
        return late
