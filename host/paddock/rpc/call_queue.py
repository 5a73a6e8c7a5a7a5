"""Keep calls to a worker that has enough calls to serve already.

A worker gets a bounded number of calls at each level of nesting. Further ones wait here: each caller's in order, and
the callers in turn. A call waits only for calls of deeper levels, which have room of their own, so waiting calls never
wait for each other. Each added call is taken, discarded or drained once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

from paddock_sdk.contract.boundary_errors import OverLimitError

MAX_HANDED: Final = 32  # calls of one level; a worker that serves them one by one has a thirtieth of its time for each
SMALL_CALL: Final = 1 << 20  # bytes; as many of these as are handed over at once may stay unread
_MAX_WAITING: Final = 4096  # calls of one caller, twice the requests that a module may have open by default


class Party(Protocol):
    """A worker that makes a call or receives it."""

    @property
    def name(self) -> str: ...


class Queued(Protocol):
    """A call that may have to wait."""

    def mark_waiting(self, is_waiting: bool) -> None: ...

    @property
    def level(self) -> int: ...

    @property
    def caller_peer(self) -> Party | None: ...

    @property
    def owner(self) -> Party: ...


CallT = TypeVar("CallT", bound=Queued)


class CallQueue(Generic[CallT]):
    """The calls that wait for one worker."""

    __slots__ = ("_levels", "size")

    def __init__(self) -> None:
        self.size = 0
        self._levels: dict[int, OrderedDict[Party | None, OrderedDict[CallT, None]]] = {}

    @property
    def levels(self) -> list[int]:
        """The levels of nesting at which calls wait."""
        return list(self._levels)

    def has(self, level: int) -> bool:
        """Whether a call of that level waits."""
        return level in self._levels

    def add(self, call: CallT) -> None:
        """Let a call wait behind those of its caller.

        Raises:
            OverLimitError: too many of those wait already.
        """
        callers = self._levels.setdefault(call.level, OrderedDict())
        waiting = callers.setdefault(call.caller_peer, OrderedDict())
        if len(waiting) >= _MAX_WAITING:
            whose = "the application" if call.caller_peer is None else f"module `{call.caller_peer.name}`"
            raise OverLimitError(
                f"a call of module `{call.owner.name}` was not made: {_MAX_WAITING} calls of {whose} wait for that "
                "module already; wait for some of their answers before calling it again"
            )
        waiting[call] = None
        call.mark_waiting(True)
        self.size += 1

    def take(self, level: int) -> CallT:
        """Return the next call of a level at which some wait; its caller's next one comes after all other callers'."""
        callers = self._levels[level]
        caller, waiting = next(iter(callers.items()))
        call, _ = waiting.popitem(last=False)
        callers.move_to_end(caller)
        self._taken(call, caller)
        return call

    def discard(self, call: CallT) -> None:
        """Forget a call that its caller gave up."""
        del self._levels[call.level][call.caller_peer][call]
        self._taken(call, call.caller_peer)

    def drain(self) -> Iterator[CallT]:
        """Take everything: the worker is gone."""
        for level in self.levels:
            while self.has(level):
                yield self.take(level)

    def _taken(self, call: CallT, caller: Party | None) -> None:
        call.mark_waiting(False)
        self.size -= 1
        callers = self._levels[call.level]
        if not callers[caller]:
            del callers[caller]
        if not callers:
            del self._levels[call.level]
