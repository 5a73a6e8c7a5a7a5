"""The bounds of one module's use of the host: things that it leaves there, how often it acts, how much it prints.

The things that a module registers or shares are kept for the session and sent to every worker, now and when it starts
again. So they are bounded for each module, by their memory rather than by their bytes on the wire. The numbers are far
above what any known module leaves, and small enough that the smallest worker has room for the things of several
modules. A thing over the quota is refused and not counted; no module is ended for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Final

from paddock.plan.model import Kind
from paddock.token_bucket import TokenBucket
from paddock_sdk.contract.boundary_errors import OverLimitError

MAX_THINGS: Final = 4096
MAX_WEIGHT: Final = 16 * 1024 * 1024  # a sixteenth of the memory of the smallest worker; texts are kept there twice
_LASTING: Final = frozenset({"state", "attribute", "capability", "data"})  # outlive the module that left them
# They pass on a model's words one by one, and a dropped word is missing from an answer. So fast that `work`
# puts off their requests before an event is dropped: a word that one other process handles is 36 values.
_STREAMING: Final = ("provider", "orchestrator")


class RegistrationQuota:
    """The things that one module left with the host, in this life and, where they stay, in earlier ones.

    Keys are tuples that begin with the sort of thing.
    """

    def __init__(self) -> None:
        self._weights: dict[tuple[Hashable, ...], int] = {}
        self._total = 0

    def begin_life(self) -> None:
        """Stop counting the things that ended with the module's last life."""
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
        """Count something of `weight` bytes of memory under `key`, in place of the earlier count there.

        Raises:
            OverLimitError: that is more than a module may leave; what was counted before still is.
        """
        self.check(weight, [key], [key])
        self.count(key, weight)

    def count(self, key: tuple[Hashable, ...], weight: int) -> None:
        """Count a thing that is there already, and was checked before."""
        self._total += weight - self._weights.get(key, 0)
        self._weights[key] = weight

    def _bound(self, things: int, total: int) -> None:
        if things > MAX_THINGS or total > MAX_WEIGHT:
            raise OverLimitError(
                f"more left with the host than a module may: {things} things that take {total} bytes; "
                f"the limit is {MAX_THINGS} things and {MAX_WEIGHT} bytes"
            )

    def spent(self, key: tuple[Hashable, ...]) -> int:
        """Return what is counted under `key`."""
        return self._weights.get(key, 0)

    def number_of(self, sort: str) -> int:
        """Return how many things of one sort are counted."""
        return sum(key[0] == sort for key in self._weights)

    def give_back(self, key: tuple[Hashable, ...]) -> None:
        """Stop counting the thing under `key`."""
        self._total -= self._weights.pop(key, 0)


class SharedStateQuota:
    """Charges the contents of a mapping that every module may write into to the modules that added them.

    A module is charged for what it added and is still there, and not for the rest. A module that changes a little is
    not charged for the contents of others. Contents that another module removes are given back.
    """

    def __init__(self, sort: str) -> None:
        self._sort = sort
        self._writers: dict[Hashable, dict[RegistrationQuota, None]] = {}

    def written(self, by: RegistrationQuota | None, key: Hashable, before: int, after: int) -> None:
        """Note that the value under `key` weighed `before` and weighs `after`, 0 if it is gone.

        A value by none of the modules is the application's, and not charged.
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


class ModuleRateLimits:
    """How often a module of a kind may use the host's time, a person's attention, or lines in a record.

    The numbers are far above what any known module does: a person answers a question every few seconds. They hold for
    the whole session of a module, so that a restart does not reset them.
    """

    def __init__(self, kind: Kind) -> None:
        streams = kind in _STREAMING
        self.events = TokenBucket(per_second=20_000 if streams else 1000, at_once=100_000 if streams else 10_000)
        # Apart: a flood of its other events does not affect its gates.
        self.gates = TokenBucket(per_second=100, at_once=1000)
        self.messages = TokenBucket(per_second=5, at_once=50)
        self.approvals = TokenBucket(per_second=0.5, at_once=30)
        self.attempts = TokenBucket(per_second=50, at_once=500)
        self.running = TokenBucket(per_second=200, at_once=1000)  # tools that it reports to start
        # Bytes of memory, and so of work: every worker that knows an object reads its new descriptions.
        self.descriptions = TokenBucket(per_second=4 * 1024 * 1024, at_once=32 * 1024 * 1024)
        # Values of messages that the host itself reads or writes for it: a microsecond or two each. Beyond it, its
        # requests are put off.
        self.work = TokenBucket(per_second=256 * 1024, at_once=2 * 1024 * 1024)
        # Values in others' answers to it that the host reads; beyond it, the module waits that much longer for answers.
        self.answers = TokenBucket(per_second=256 * 1024, at_once=2 * 1024 * 1024)


class OutputBudget:
    """How much a module may print during one call; `oldest_call` returns the number of the oldest.

    Several calls may run at once, and output does not show its call. So the budget counts all output since the oldest
    running call began. Between calls nothing is counted.

    `on_spent` is called once, with the number of bytes, when that is more than `limit`.
    """

    def __init__(self, limit: int, oldest_call: Callable[[], int | None], on_spent: Callable[[int], None]) -> None:
        self._limit = limit
        self._oldest_call = oldest_call
        self._on_spent = on_spent
        self._oldest: int | None = None
        self._printed = 0
        self._is_spent = False

    def note(self, size: int) -> None:
        """Count this many printed bytes."""
        oldest = self._oldest_call()
        if oldest is None or self._is_spent:
            return
        if oldest != self._oldest:
            self._oldest, self._printed = oldest, 0
        self._printed += size
        if self._printed > self._limit:
            self._is_spent = True
            self._on_spent(self._printed)
