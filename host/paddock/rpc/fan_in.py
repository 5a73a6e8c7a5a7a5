"""Gather several answers into one message, within the memory that the message may take.

Each answer is counted as it comes, by its memory rather than by its bytes. One module's answers leave room for those of
others. An answer over the limit is dropped, which costs the others nothing. A module whose answer was dropped is not
asked again, and no module is asked once the message is full.
"""

from __future__ import annotations

import contextvars
import logging
from typing import Final, Self

from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.frames import MAX_FRAME_BYTES, Buffer

_OF_ALL: Final = MAX_FRAME_BYTES
_OF_ONE: Final = MAX_FRAME_BYTES // 4

_log = logging.getLogger(__name__)


class ResponseBudget:
    """The memory of the answers gathered for one requester; the limit applies while it is entered, once."""

    __slots__ = (
        "_by_name",
        "_is_full",
        "_outer",
        "_refused",
        "_token",
        "_total",
        "keeps_all",
        "weight_inside",
    )

    def __init__(self, *, keeps_all: bool) -> None:
        self.keeps_all = keeps_all  # every answer, not only those that report it
        self.weight_inside = 0  # of modules' answers in fan-ins inside of this one
        self._total = 0
        self._by_name: dict[str, int] = {}
        self._refused: set[str] = set()
        self._is_full = False

    def __enter__(self) -> Self:
        self._outer = current.get()
        self._token = current.set(self)
        return self

    def __exit__(self, *raised: object) -> None:
        current.reset(self._token)
        if self._outer is not None:
            self._outer.count_inside(self._total)

    @property
    def weight(self) -> int:
        """The memory that modules' answers take."""
        return self._total

    def count_inside(self, weight: int) -> None:
        """Add what a fan-in inside of this one took."""
        self.weight_inside += weight

    def has_room_for(self, name: str) -> bool:
        """Whether to ask a module of that `name`."""
        return not self._is_full and name not in self._refused

    def admits(self, name: str, answer: Buffer) -> bool:
        """Take the answer of a module of that `name`, if there is room; log the lack of room once for each."""
        weight = weight_of(answer)
        total, own = self._total + weight, self._by_name.get(name, 0) + weight
        if own <= _OF_ONE and total <= _OF_ALL:
            self._total, self._by_name[name] = total, own
            return True
        self._is_full = self._is_full or total > _OF_ALL
        if name not in self._refused:
            self._refused.add(name)
            _log.warning(
                "what module `%s` answers with is left out: %d bytes of it and %d of all modules are too much; "
                "what is gathered at one time takes %d of one module and %d of all",
                name,
                own,
                total,
                _OF_ONE,
                _OF_ALL,
            )
        return False


current: contextvars.ContextVar[ResponseBudget | None] = contextvars.ContextVar("paddock_fan_in", default=None)
"""What the host's current code gathers for."""
