"""Run several cases in shuffled blocks, so that what a machine does meanwhile falls on all of them alike.

A block is a short run of one case; its figure is the median of what it measured. Two cases are compared by the median
of the ratios of their blocks in the same round, never by figures from different times.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from statistics import median
from typing import Final

Block = Callable[[], Awaitable[list[float]]]
"""Runs one block and returns what each repetition took."""

_SEED: Final = 20  # the order of blocks is random but the same in every run
_SECONDS: Final = 25.0  # for the rounds of one comparison, which a busy or slow machine does not get through
_FEWEST_ROUNDS: Final = 3


class Effort(Enum):
    """How much is repeated: what figures need, or what shows that every part still runs."""

    FULL = "full"
    QUICK = "quick"

    def of(self, full: int, quick: int = 2) -> int:
        """Return the one of two numbers that this effort takes."""
        return full if self is Effort.FULL else min(full, quick)


class Samples:
    """What the cases of one measurement took, by round."""

    def __init__(self, rounds: list[dict[str, list[float]]]) -> None:
        self._rounds = rounds

    def p50(self, case: str) -> float:
        """Return the median of the case's block medians."""
        return median(median(blocks[case]) for blocks in self._rounds)

    def p99(self, case: str) -> float:
        """Return the value that one in a hundred repetitions exceeds, all blocks taken together."""
        pooled = sorted(value for blocks in self._rounds for value in blocks[case])
        return pooled[int(len(pooled) * 0.99)]

    def ratio(self, case: str, reference: str) -> float:
        """Return the median over the rounds of how one case's block compares with the other's."""
        return median(median(blocks[case]) / median(blocks[reference]) for blocks in self._rounds)


async def interleave(cases: Mapping[str, Block], rounds: int, seconds: float = _SECONDS) -> Samples:
    """Run every case once a round, in an order of its own each round, after one round that is not counted.

    A machine too slow for all rounds in these seconds does fewer, but some.
    """
    order = list(cases)
    shuffle = random.Random(_SEED).shuffle
    measured: list[dict[str, list[float]]] = []
    until = time.monotonic() + seconds
    while len(measured) <= rounds and (len(measured) <= _FEWEST_ROUNDS or time.monotonic() < until):
        shuffle(order)
        measured.append({case: await cases[case]() for case in order})
    return Samples(measured[1:])
