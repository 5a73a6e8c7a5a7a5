"""The objects that one worker was handed, by the numbers under which it knows them, and its rights to them.

A number is given once, and means nothing to another worker. An object keeps its number until the worker has released it
as often as it was handed it; handed over again, it gets a new one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from paddock.rpc.rights import BorrowedRef, Right
from paddock_sdk.protocol import RemoteProtocolError

H = TypeVar("H", bound=Hashable)


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
