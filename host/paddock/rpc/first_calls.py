"""Have a record kept before a module acts outside its session's folder for the first time.

A module that can do so may do it in any call. So its first call waits for the application's record, and calls that come
meanwhile wait behind it, in order. Without a record no call is made: these calls fail, no other module is called for
the first time either, and the turn ends. If a waiting call is cancelled, its record is kept all the same, and the call
is not made. An entry of a plan has one record, for all lives of its module and for sub-sessions; then its calls pass
unexamined, as do those of other modules.

Not recorded are the calls of a provider where it is mounted: a completion that is asked for again costs, and changes
nothing. Neither is what a module does while it is started or ended, of which it is informed and not asked.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from paddock.errors import ModuleError
from paddock.rpc.peer import Encoded, Handle, Peer
from paddock.rpc.router import Router

BeforeActing = Callable[[str, str], Awaitable[None]]
"""Keeps a record, or raises: gets the name of a module, and what is called: a tool's name, `hook EVENT`, or a method.

It is awaited without a time limit of its own. The calls that wait have theirs.
"""

Called = Callable[[Handle, int, Encoded], str]
"""Returns what a call calls, for the record; it gets the object, the number of the member, and the arguments."""

_PROVIDERS: Final = "providers"


class FirstCalls:
    """The records of one session and its sub-sessions; without `before_acting` none is kept."""

    def __init__(self, before_acting: BeforeActing | None = None) -> None:
        self._before_acting = before_acting
        self._context = contextvars.copy_context()  # the application's
        self._records: dict[str, asyncio.Task[None]] = {}
        self._error: Exception | None = None
        self._stop: Callable[[], object] = lambda: None

    @property
    def are_recorded(self) -> bool:
        """Whether there is anything to be asked for a record."""
        return self._before_acting is not None

    def check(self) -> None:
        """Refuse to go on without a record.

        Raises:
            Exception: the one with which the first of them failed.
        """
        if self._error is not None:
            raise self._error

    @contextmanager
    def needed(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call `stop` when a record cannot be kept meanwhile.

        Raises:
            Exception: as `check`, before or after, in place of an error of the turn.
        """
        self.check()
        self._stop = stop
        try:
            yield
        except Exception:
            self.check()
            raise
        finally:
            self._stop = lambda: None
        self.check()

    def is_kept(self, place: str) -> bool:
        """Whether the module at a place of the plan may be called: there is a record of it, and none has failed."""
        record = self._records.get(place)
        return record is not None and record.done() and not record.cancelled() and self._error is None

    def record(self, place: str, module: str, called: str) -> asyncio.Task[None]:
        """Begin the record of the module at a place of the plan, unless it was begun before; return it."""
        if place not in self._records:
            work = self._keep(module, called)
            self._records[place] = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        return self._records[place]

    async def _keep(self, module: str, called: str) -> None:
        if self._error is None and self._before_acting is not None:
            try:
                await self._before_acting(module, called)
            except Exception as error:  # the application's, which gets it back
                self._error = error
                self._stop()

    def error_for(self, module: str) -> ModuleError:
        """Return the error of calls of a module that were not made."""
        why = "it was given up" if self._error is None else f"{type(self._error).__name__}: {self._error}"
        problem = f"module `{module}` was not called, as no record of that could be kept: {why}"
        return ModuleError(module, problem, code="NoRecordError")

    async def aclose(self) -> None:
        """End the records that nothing waits for any more."""
        begun = [record for record in self._records.values() if not record.done()]
        for record in begun:
            record.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


class FirstCall:
    """Holds the calls of one life of a module, until there is a record of the first one."""

    def __init__(self, first_calls: FirstCalls, router: Router, peer: Peer, place: str, called: Called) -> None:
        self.is_shut = False
        self._first_calls = first_calls
        self._router = router
        self._peer = peer
        self._place = place
        self._called = called

    def holds(self, handle: Handle, method: int, message: Encoded) -> bool:
        """Whether a call has to wait; the first one that has to begins the record."""
        if self.is_shut:
            return True
        if self._peer.kind == "provider" and handle.mounted is not None and handle.mounted[0] == _PROVIDERS:
            return False
        self.is_shut = True
        called = self._called(handle, method, message)
        self._first_calls.record(self._place, self._peer.name, called).add_done_callback(self._on_recorded)
        return True

    def _on_recorded(self, record: asyncio.Task[None]) -> None:
        self.is_shut = False
        if self._first_calls.is_kept(self._place):
            self._peer.guard(None)
            self._router.on_room(self._peer)
        else:
            self._router.fail_waiting(self._peer, self._first_calls.error_for(self._peer.name))
