"""How many attempts run at once on this machine: from as many as there are processors, up to the number given.

Starts come in bursts otherwise. The number grows by as many as there are processors while the machine's pressure
allows it, by one from time to time while its processors are busy, and not at all while memory is scarce.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import anyio

from paddock.batch.place import Place

_STALLED: Final = re.compile(r"^some .* total=(\d+)$", re.MULTILINE)
_SCARCE: Final = {"cpu": 0.7, "memory": 0.1}  # share of the time in which something waited for it
_STEP: Final = 0.5  # seconds
_SLOWLY: Final = 10  # steps; others may be what keeps the processors busy, and a session mostly waits


def stalled(name: str) -> float:
    """Return for how many seconds something has waited for `cpu` or `memory`; 0 if the kernel does not say it."""
    try:
        found = _STALLED.search(Path("/proc/pressure", name).read_text(encoding="ascii"))
    except OSError:
        found = None
    return 0 if found is None else int(found[1]) / 1_000_000


class Ramp:
    """Room for attempts at one place, `most` at once in the end: the `Places` of a run on one machine."""

    def __init__(self, place: Place, most: int) -> None:
        self._place = place
        self._step = os.cpu_count() or 1
        self._room = anyio.Semaphore(min(self._step, most))
        self._missing = most - self._room.value

    async def take(self) -> Place:
        """Wait for room, as `Places` has it."""
        await self._room.acquire()
        return self._place

    def give_back(self, place: Place) -> None:
        """Take room back, as `Places` has it."""
        self._room.release()

    async def grow(self) -> None:
        """Make room until there is as much as was asked for."""
        steps = 0
        while self._missing:
            before = {name: stalled(name) for name in _SCARCE}
            await anyio.sleep(_STEP)
            scarce = [name for name, most in _SCARCE.items() if stalled(name) - before[name] > most * _STEP]
            steps += 1
            if "memory" in scarce or (scarce and steps < _SLOWLY):
                continue
            steps = 0
            more = min(1 if scarce else self._step, self._missing)
            self._missing -= more
            for _ in range(more):
                self._room.release()
