"""What a call of a worker came to, as it is handed to whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple


class CallOutcome(NamedTuple):
    """What a call came to, or one item of it."""

    value: Any
    error: BaseException | None = None
    is_item: bool = False

    def take(self) -> Any:
        """Return the value or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


Finish = Callable[[CallOutcome], None]


def settle(future: asyncio.Future[CallOutcome], outcome: CallOutcome) -> None:
    """Give an outcome to whoever awaits it, unless nobody does any more."""
    if not future.done():  # its caller may have been cancelled, and have had no time yet to say so
        future.set_result(outcome)
