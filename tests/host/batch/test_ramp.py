"""The ramp: more attempts at once as long as the machine has room, and never more than were asked for."""

from __future__ import annotations

import os
from itertools import count

import anyio
import pytest

from paddock.batch import local
from paddock.batch.local import Ramp, stalled


@pytest.mark.parametrize(
    ("scarce", "after", "room"),
    [([], 1, 4), ([], 2, 6), ([], 3, 7), ([], 9, 7), (["cpu"], 9, 2), (["cpu"], 20, 4), (["memory"], 50, 2)],
)
async def test_it_grows_as_the_pressure_allows(
    monkeypatch: pytest.MonkeyPatch, scarce: list[str], after: int, room: int
) -> None:
    """`room` is how much there is `after` that many steps."""
    steps = count(1)
    waited = dict.fromkeys(scarce, 0.0)

    async def sleep(seconds: float) -> None:
        if next(steps) > after:
            await anyio.sleep_forever()
        for name in waited:
            waited[name] += seconds

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(local, "stalled", lambda name: waited.get(name, 0.0))
    ramp = Ramp(None, 7)  # type: ignore[arg-type]
    with monkeypatch.context() as patched, anyio.CancelScope() as scope:
        patched.setattr(local.anyio, "sleep", sleep)
        scope.deadline = anyio.current_time() + 0.01
        await ramp.grow()
    taken = 0
    with anyio.move_on_after(0.01):
        while True:
            await ramp.take()
            taken += 1
    assert taken == room


def test_what_the_kernel_says_is_read() -> None:
    assert stalled("cpu") >= stalled("nothing") == 0
