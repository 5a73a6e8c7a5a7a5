"""The right to call an object that was passed as an argument: for that call, and no longer.

Nothing has to be done when the call ends: a loan holds as long as its call is open. A borrower can lend an object on,
but not for longer than it has it itself.

The rights that a request may pass on are worked out once, when it arrives: a request can wait, and its sender can
release the objects that it names meanwhile. A right not known then does not exist.
"""

from __future__ import annotations

import weakref
from typing import Protocol


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

    def may_use_lent(self, point: str, member: str) -> bool:
        """Whether it may call this member of the object mounted there while the object is lent to it."""
        ...


def allow_any(handle: object) -> bool:
    """Let a worker call any object that it is handed."""
    return True


def allow_none(handle: object) -> bool:
    """Show a worker an object that it may not call."""
    return False
