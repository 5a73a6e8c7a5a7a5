"""The objects that a worker holds, by the numbers under which it knows them, and its rights to call them.

An object that was passed as an argument may be called for that call, and no longer. Nothing has to be done when the
call ends: a loan holds as long as its call is open. A borrower can lend an object on, but not for longer than it has it
itself.

A number is given once, and means nothing to another worker. An object keeps its number until the worker has released it
as often as it was handed it; handed over again, it gets a new one.

The rights that a request may pass on are worked out once, when it arrives: a request can wait, and its sender can
release the objects that it names meanwhile. A right not known then does not exist.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from paddock_sdk.protocol import RemoteProtocolError

H = TypeVar("H", bound=Hashable)


class Pending(Protocol):
    """A worker's request or a call of a worker, until it is answered."""

    @property
    def is_open(self) -> bool: ...


class BorrowedRef:
    """One object lent with one call; `source` is the loan by which the giver has the object, if it has only a loan.

    The call is a worker's request, which may be made to several lives of its target, or a call of the application's. A
    loan keeps nothing of the call alive.
    """

    __slots__ = ("_call", "_source")

    def __init__(self, call: Pending, source: BorrowedRef | None = None) -> None:
        self._call = weakref.ref(call)
        self._source = source

    @property
    def holds(self) -> bool:
        """Whether the call is open, and the calls of every loan that this one was made of are too."""
        borrowed: BorrowedRef | None = self
        while borrowed is not None:
            call = borrowed._call()
            if call is None or not call.is_open:
                return False
            borrowed = borrowed._source
        return True


Right = bool | BorrowedRef
"""Whether an object may be called as long as it is held, or for the length of a call."""


class CallAuthority(Protocol):
    """What a worker may do beyond its own objects."""

    def may_call(self, point: str, name: str | None) -> bool:
        """Whether it may call the object mounted there without being handed it."""
        ...

    def note_call(self, point: str, name: str | None) -> None:
        """Note a call of the object mounted there."""
        ...

    def may_use_lent(self, point: str, member: str) -> bool:
        """Whether it may call this member of the object mounted there while the object is lent to it."""
        ...


def allow_any(handle: object) -> bool:
    """Let a worker call any object that it is handed."""
    return True


def allow_none(handle: object) -> bool:
    """Show a worker an object that it may not call."""
    return False


class ObjectGrant(Generic[H]):
    """One object that a worker was handed; with `may_call`, the worker may call it as long as it holds it."""

    __slots__ = ("_borrowed", "handle", "may_call", "number", "times")

    def __init__(self, number: int, handle: H) -> None:
        self.number = number
        self.handle = handle
        self.may_call = False
        self.times = 0
        self._borrowed: tuple[BorrowedRef, ...] = ()

    def give(self, right: Right) -> None:
        """Hand it to the worker once more, with a right in addition to those it has."""
        self.times += 1
        if isinstance(right, BorrowedRef):
            self._borrowed = (*(borrowed for borrowed in self._borrowed if borrowed.holds), right)
        elif right:
            self.may_call = True

    def let_go(self, times: int) -> bool:
        """Count releases by the worker; return whether that was the last of it."""
        self.times -= times
        return self.times <= 0

    @property
    def borrowed(self) -> BorrowedRef | None:
        """Return a loan of the object that still holds, the latest of several."""
        return next((borrowed for borrowed in reversed(self._borrowed) if borrowed.holds), None)


class ObjectGrants(Generic[H]):
    """The objects that one worker holds."""

    def __init__(self) -> None:
        self._by_number: dict[int, ObjectGrant[H]] = {}
        self._by_handle: dict[H, ObjectGrant[H]] = {}
        self._next_number = 1

    def by_number(self, number: int) -> ObjectGrant[H]:
        """Return the object that the worker was handed under this number.

        Raises:
            RemoteProtocolError: it was handed nothing under it; the worker made the number up.
        """
        try:
            return self._by_number[number]
        except KeyError:
            raise RemoteProtocolError(f"a reference to object {number}, which this module was never handed") from None

    def of(self, handle: H) -> ObjectGrant[H] | None:
        """Return the worker's hold of `handle`, if it has one."""
        return self._by_handle.get(handle)

    def number_of(self, handle: H) -> int | None:
        """Return the number under which the worker knows `handle`, if it does."""
        held = self._by_handle.get(handle)
        return None if held is None else held.number

    def add(self, handle: H) -> ObjectGrant[H]:
        """Number an object that the worker does not hold, and return the hold, which has no right yet."""
        held = ObjectGrant(self._next_number, handle)
        self._next_number += 1
        self._by_number[held.number] = self._by_handle[handle] = held
        return held

    def let_go(self, number: int, times: int) -> bool:
        """Count releases by the worker; return whether that was the last of the object."""
        held = self._by_number.get(number)
        if held is None or not held.let_go(times):
            return False
        del self._by_number[number]
        del self._by_handle[held.handle]
        return True

    def clear(self) -> None:
        """Forget all of it: the worker is gone."""
        self._by_number.clear()
        self._by_handle.clear()
