"""Keep calls to workers that have enough calls to serve already.

A worker gets a bounded number of calls at each level of nesting. Further ones wait here: each caller's in order, and
the callers in turn. A call waits only for calls of deeper levels, which have room of their own, so waiting calls never
wait for each other. Each added call is taken, discarded or drained once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from paddock.rpc.calls import RoutedCall
from paddock.rpc.peer import Peer
from paddock_sdk.contract.boundary_errors import OverLimitError

MAX_HANDED: Final = 32  # calls of one level; a worker that serves them one by one has a thirtieth of its time for each
SMALL_CALL: Final = 1 << 20  # bytes; as many of these as are handed over at once may stay unread
_MAX_WAITING: Final = 4096  # calls of one caller, twice the requests that a module may have open by default
_MAX_UNREAD: Final = 16 * 1024 * 1024  # bytes that a worker may have yet to read when it is handed another call
_MAX_BLOCKED: Final = 8  # calls in which one worker is blocked, each in the one before; real code nests one or two
# Calls of one level, with those that need not wait: a worker that gives up each such call has not made it blocked.
_MAX_WITH_BLOCKED: Final = 2 * MAX_HANDED


class CallQueue:
    """The calls of one session that wait, by the worker that they are for."""

    def __init__(self) -> None:
        self._levels: dict[Peer, dict[int, OrderedDict[Peer | None, OrderedDict[RoutedCall, None]]]] = {}

    def levels(self, owner: Peer) -> list[int]:
        """Return the levels of nesting at which calls wait for a worker."""
        return list(self._levels.get(owner, ()))

    def has(self, owner: Peer, level: int) -> bool:
        """Whether a call of that level waits for a worker."""
        return level in self._levels.get(owner, ())

    def is_for(self, call: RoutedCall) -> bool:
        """Whether a call must wait for its turn; a call that its owner itself waits for need not."""
        origin = call.origin
        if (
            origin is not None
            and origin.blocks
            and len(origin.peer.blocked) <= _MAX_BLOCKED
            and call.owner.channel.calls.number(call.level) < _MAX_WITH_BLOCKED
        ):
            return False  # its caller serves nothing meanwhile, also nothing that the owner may wait for
        return self.has(call.owner, call.level) or not has_room(call.owner, call.level)

    def add(self, call: RoutedCall) -> None:
        """Let a call wait behind those of its caller.

        Raises:
            OverLimitError: too many of those wait already.
        """
        callers = self._levels.setdefault(call.owner, {}).setdefault(call.level, OrderedDict())
        waiting = callers.setdefault(call.caller_peer, OrderedDict())
        if len(waiting) >= _MAX_WAITING:
            whose = "the application" if call.caller_peer is None else f"module `{call.caller_peer.name}`"
            raise OverLimitError(
                f"a call of module `{call.owner.name}` was not made: {_MAX_WAITING} calls of {whose} wait for that "
                "module already; wait for some of their answers before calling it again"
            )
        waiting[call] = None
        call.mark_waiting(True)

    def take(self, owner: Peer, level: int) -> RoutedCall:
        """Return the next call of a level at which some wait; its caller's next one comes after all other callers'."""
        callers = self._levels[owner][level]
        caller, waiting = next(iter(callers.items()))
        call, _ = waiting.popitem(last=False)
        callers.move_to_end(caller)
        self._taken(call, caller)
        return call

    def discard(self, call: RoutedCall) -> None:
        """Forget a call that its caller gave up."""
        del self._levels[call.owner][call.level][call.caller_peer][call]
        self._taken(call, call.caller_peer)

    def drain(self, owner: Peer) -> Iterator[RoutedCall]:
        """Take everything that waits for a worker, which is gone."""
        for level in self.levels(owner):
            while self.has(owner, level):
                yield self.take(owner, level)

    def _taken(self, call: RoutedCall, caller: Peer | None) -> None:
        call.mark_waiting(False)
        levels = self._levels[call.owner]
        callers = levels[call.level]
        if not callers[caller]:
            del callers[caller]
        if not callers:
            del levels[call.level]
        if not levels:
            del self._levels[call.owner]


def has_room(owner: Peer, level: int) -> bool:
    """Whether a worker serves few enough calls of a level, has read nearly all of its messages, and is not held."""
    channel = owner.channel
    if owner.is_held or channel.unsent_bytes > _MAX_UNREAD:
        return False
    return channel.connection.outgoing < MAX_HANDED or channel.calls.number(level) < MAX_HANDED
