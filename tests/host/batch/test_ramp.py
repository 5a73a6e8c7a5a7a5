"""The ramp: more attempts at once as long as the machine has room, and never more than were asked for."""

from __future__ import annotations

import os

import anyio
import pytest

from host.batch.scripted_places import ScriptedPlaces
from paddock.batch.ramp import Ramp, stalled


@pytest.mark.parametrize(
    ("scarce", "after_a_look", "after_long"),
    [(set(), 4, 7), ({"cpu"}, 2, 3), ({"memory"}, 2, 2), (None, 4, 7)],
    ids=["room", "busy processors", "scarce memory", "no figures"],
)
async def test_it_grows_as_the_pressure_allows(
    monkeypatch: pytest.MonkeyPatch, scarce: set[str] | None, after_a_look: int, after_long: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    now = 0.0

    def waited() -> dict[str, float]:
        return {} if scarce is None else {name: now * (name in scarce) for name in ("cpu", "memory")}

    ramp = Ramp(ScriptedPlaces(None), 7, stalled=waited, clock=lambda: now)  # type: ignore[arg-type]
    assert await _taken(ramp) == 2
    now = 0.4
    assert await _taken(ramp) == 0
    now = 0.6
    assert await _taken(ramp) == after_a_look - 2
    for later in (6.0, 6.6):
        now = later
        after_a_look += await _taken(ramp)
    assert after_a_look == after_long
    ramp.give_back(ramp)  # type: ignore[arg-type]
    assert await _taken(ramp) == 1


def test_what_the_kernel_says_is_read() -> None:
    assert all(seconds >= 0 for seconds in stalled().values())


async def _taken(ramp: Ramp) -> int:
    """Take all the room that there is without a wait; return how much."""
    taken = 0
    while True:
        with anyio.CancelScope() as scope:
            scope.deadline = anyio.current_time() + 0.02
            await ramp.take()
            taken += 1
            continue
        return taken
