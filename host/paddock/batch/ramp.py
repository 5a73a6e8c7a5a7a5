"""How many attempts run at once on this machine: from as many as there are processors, up to the number given.

Starts come in bursts otherwise. The number grows by as many as there are processors while the machine's pressure
allows it, by one from time to time while its processors are busy, and not at all while memory is scarce.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import anyio

from paddock.batch.place import Place

_STALLED: Final = re.compile(r"^some .* total=(\d+)$", re.MULTILINE)
_SCARCE: Final = {"cpu": 0.7, "memory": 0.1}  # share of the time in which something waited for it
_STEP: Final = 0.5  # seconds
_SLOW_STEP: Final = 5.0  # others may be what keeps the processors busy, and a session mostly waits


def stalled() -> dict[str, float]:
    """Return for how many seconds something has waited for processors and for memory, as far as the kernel says it."""
    found = {}
    for name in _SCARCE:
        try:
            text = Path("/proc/pressure", name).read_text(encoding="ascii")
        except OSError:
            continue
        if total := _STALLED.search(text):
            found[name] = int(total[1]) / 1_000_000
    return found


class Ramp:
    """Room for attempts at one place, `most` at once in the end: the `Places` of a run on one machine."""

    def __init__(
        self,
        place: Place,
        most: int,
        *,
        stalled: Callable[[], Mapping[str, float]] = stalled,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._most = most
        self._step = os.cpu_count() or 1
        self._allowed = min(self._step, most)
        self._room = anyio.Semaphore(self._allowed)
        self._stalled = stalled
        self._clock = clock
        self._looked = clock()
        self._grown = clock()
        self._before = stalled()

    async def take(self) -> Place:
        """Wait for room, as `Places` has it."""
        while True:
            may_grow = self._allowed < self._most
            if may_grow and self._room.value == 0:
                self._look()
            with anyio.move_on_after(_STEP if may_grow else math.inf):
                await self._room.acquire()
                return self._place

    def give_back(self, place: Place) -> None:
        """Take room back, as `Places` has it."""
        self._room.release()

    def _look(self) -> None:
        """Allow more, if it is time and the machine has room."""
        now = self._clock()
        passed = now - self._looked
        if passed < _STEP:
            return
        waited = self._stalled()
        scarce = {
            name for name, most in _SCARCE.items() if waited.get(name, 0) - self._before.get(name, 0) > most * passed
        }
        self._looked, self._before = now, waited
        if "memory" in scarce or ("cpu" in scarce and now - self._grown < _SLOW_STEP):
            return
        more = min(1 if scarce else self._step, self._most - self._allowed)
        self._allowed += more
        self._grown = now
        for _ in range(more):
            self._room.release()
