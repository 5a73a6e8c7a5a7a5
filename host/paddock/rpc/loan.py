"""The right to call an object that was passed as an argument: for that call, and no longer.

Nothing has to be done when the call ends: whether a loan still holds is seen by looking whether the call is open. Who
was only lent an object can lend it on, but not for longer than it has it itself.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.rpc.calls import RoutedCall


class Loan:
    """One object lent with one call; `source` is the loan that the giver itself has the object by, if it has no more.

    It keeps nothing of the call alive.
    """

    __slots__ = ("_call", "_source")

    def __init__(self, call: RoutedCall, source: Loan | None = None) -> None:
        self._call = weakref.ref(call)
        self._source = source

    @property
    def holds(self) -> bool:
        """Whether the call is open, and those are of every loan that this one was made of."""
        loan: Loan | None = self
        while loan is not None:
            call = loan._call()
            if call is None or call.owner.channel.calls.get(call.id) is not call:
                return False
            loan = loan._source
        return True


Right = bool | Loan
"""Whether an object may be called as long as it is held, or for the length of a call."""
