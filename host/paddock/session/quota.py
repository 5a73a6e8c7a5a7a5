"""How much one module may leave with the host: things to remember, and the memory that they take everywhere.

What a module registers or shares is kept for the session and told to every other worker, now and when it starts again,
so it is bounded for each module, by what it takes there rather than by its bytes on the wire. The numbers are far above
what any known module leaves, and such that the smallest worker has room for what several modules leave at once. What
would be more is refused and not counted; no module is ended for it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Final

from paddock_sdk.contract.boundary_errors import OverLimitError

_MAX_THINGS: Final = 4096
_MAX_WEIGHT: Final = 16 * 1024 * 1024  # a sixteenth of the memory of the smallest worker; texts are kept there twice
_LASTING: Final = frozenset({"state", "attribute", "capability", "data"})  # outlive who left them


class RegistrationQuota:
    """What one module has left with the host so far, in this life and, where it stays, in earlier ones.

    Keys are tuples that begin with the sort of thing.
    """

    def __init__(self) -> None:
        self._weights: dict[tuple[Hashable, ...], int] = {}
        self._total = 0

    def begin_life(self) -> None:
        """Count no more what went with the module's last life."""
        for key in [key for key in self._weights if key[0] not in _LASTING]:
            self.give_back(key)

    def check(
        self,
        weight: int,
        left: Collection[tuple[Hashable, ...]] = (),
        instead_of: Collection[tuple[Hashable, ...]] = (),
    ) -> None:
        """Do nothing if something of `weight` could be left under the keys `left`, in place of some others.

        Raises:
            OverLimitError: that would be more than a module may leave.
        """
        replaced = {*instead_of}
        total = self._total + weight - sum(self._weights.get(key, 0) for key in replaced)
        added = sum(key not in self._weights for key in {*left})
        self._bound(len(self._weights) + added - sum(key in self._weights for key in replaced.difference(left)), total)

    def spend(self, key: tuple[Hashable, ...], weight: int) -> None:
        """Count something of `weight` bytes of memory under `key`, in place of what was counted under it before.

        Raises:
            OverLimitError: that is more than a module may leave; what was counted before still is.
        """
        self.check(weight, [key], [key])
        self.count(key, weight)

    def count(self, key: tuple[Hashable, ...], weight: int) -> None:
        """Count what is there already, and was checked before."""
        self._total += weight - self._weights.get(key, 0)
        self._weights[key] = weight

    def _bound(self, things: int, total: int) -> None:
        if things > _MAX_THINGS or total > _MAX_WEIGHT:
            raise OverLimitError(
                f"more left with the host than a module may: {things} things that take {total} bytes; "
                f"the limit is {_MAX_THINGS} things and {_MAX_WEIGHT} bytes"
            )

    def spent(self, key: tuple[Hashable, ...]) -> int:
        """Return what is counted under `key`."""
        return self._weights.get(key, 0)

    def number_of(self, sort: str) -> int:
        """Return how many things of one sort are counted."""
        return sum(key[0] == sort for key in self._weights)

    def give_back(self, key: tuple[Hashable, ...]) -> None:
        """Count what was under `key` no more."""
        self._total -= self._weights.pop(key, 0)


class SharedStateQuota:
    """Who answers for how much of what is under the keys of a mapping that every module may write into.

    A module answers for what it added and is still there, whoever wrote the rest: what one has left is never charged
    to another that changes a little of it, and what another takes away is given back.
    """

    def __init__(self, sort: str) -> None:
        self._sort = sort
        self._writers: dict[Hashable, dict[RegistrationQuota, None]] = {}

    def written(self, by: RegistrationQuota | None, key: Hashable, before: int, after: int) -> None:
        """Take note that what is under `key` weighed `before` and weighs `after`, 0 if it is gone.

        What is by none of them is the application's, and charged to nobody.
        """
        counted = (self._sort, key)
        if not after:
            for writer in self._writers.pop(key, ()):
                writer.give_back(counted)
            return
        writers = self._writers.setdefault(key, {})
        for writer in writers:
            if writer is not by and writer.spent(counted) > after:
                writer.count(counted, after)
        if by is None:
            return
        writers[by] = None
        by.count(counted, min(by.spent(counted) + max(0, after - before), after))
