"""Have a record kept before a module acts outside its session's folder for the first time.

A module that can do so may do it in any call. So its first call waits for the application's record, and calls that come
meanwhile wait behind it, each caller's in order. Without a record none of them is made, no other module is called for
the first time, and the turn ends. A call that is cancelled while it waits is not made; its record is kept all the same.
An entry of a plan has one record, for all lives of its module and all sub-sessions; then its calls pass unexamined.

Calls of a provider's object are not recorded: to ask for an answer again costs, and changes nothing. Neither is what a
module does without being called: while it is started, described or ended, or in a thread of its own. So a record shows
what may have been done twice by a module that means well; it is no border for one that does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from paddock.errors import ModuleError
from paddock.rpc.calls import RoutedCall
from paddock.rpc.peer import Peer
from paddock.rpc.router import Router
from paddock.text import escape

BeforeActing = Callable[[str, str], Awaitable[None]]
"""Keeps a record, or raises. It gets the module's name and what is called: a tool, `hook EVENT`, or else a method."""


class FirstCalls:
    """The records of one session and its sub-sessions; without `before_acting` there are none."""

    def __init__(self, before_acting: BeforeActing | None = None) -> None:
        self.before_acting = before_acting
        self._records: dict[str, asyncio.Task[None]] = {}
        self._error: Exception | None = None
        self._stop: Callable[[], object] = lambda: None

    def check(self) -> None:
        """Raise the error with which a record failed, unless none did."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def needed(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call `stop` when a record fails meanwhile; raise its error, before or after, in place of another."""
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

    def guard(self, router: Router, peer: Peer, place: str, called: Callable[[RoutedCall], str]) -> None:
        """Hold the calls of one life of the module at a place of the plan, until there is a record.

        `called` returns what a call calls, for people.
        """
        if not self._is_kept(place):
            peer.guard(partial(self._holds, router, peer, place, called))

    def _holds(
        self, router: Router, peer: Peer, place: str, called: Callable[[RoutedCall], str], call: RoutedCall
    ) -> bool:
        if not peer.is_held:
            mounted = call.handle.mounted
            if peer.kind == "provider" and mounted is not None and mounted[0] == "providers":
                return False
            if place not in self._records:
                self._records[place] = asyncio.ensure_future(self._keep(peer.name, escape(called(call))))
            self._records[place].add_done_callback(lambda _: self._let_go(router, peer, place))
            peer.guard(peer.gate, is_held=True)
        return peer.is_open  # nothing ends the wait for one that is gone

    async def _keep(self, module: str, called: str) -> None:
        if self._error is None and self.before_acting is not None:
            try:
                await self.before_acting(module, called)
            except Exception as error:  # which the application gets back
                self._error = error
                self._stop()

    def _is_kept(self, place: str) -> bool:
        record = self._records.get(place)
        return record is not None and record.done() and not record.cancelled() and self._error is None

    def _let_go(self, router: Router, peer: Peer, place: str) -> None:
        peer.guard(None if self._is_kept(place) else peer.gate)
        if self._is_kept(place):
            router.on_room(peer)
        else:
            problem = f"module `{peer.name}` was not called, as no record of that was kept: {self._error or 'given up'}"
            router.fail_waiting(peer, ModuleError(peer.name, problem, code="NoRecordError"))
