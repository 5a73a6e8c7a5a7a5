"""A long run takes no more at its end than at its beginning."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import psutil
import pytest

from integration.tricky_tool import plan_of
from many_tasks.__main__ import main
from paddock.batch import run

_TASKS = 2000
_FIRST = 200  # by when everything has been loaded, and eight run at once
_MANY = 800  # means of so many differ by less than what is looked for; one descriptor a task would be a thousand more


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_demonstration_is_as_it_should_be() -> None:
    assert main(24) == 0


@pytest.fixture
def usual_collector() -> Iterator[None]:
    """Look at new objects as often as a program of its own does; the process of the tests looks less often."""
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("usual_collector")
async def test_memory_and_descriptors_are_those_of_the_first_tasks(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({"id": f"t{number}", "prompt": "hello"}) + "\n" for number in range(_TASKS)))
    process = psutil.Process()
    memory, descriptors = [], []
    async for result in run(plan_of(tmp_path), tasks, out=tmp_path / "out", concurrency=8):
        assert result.status == "done", result.error
        memory.append(process.memory_info().rss)
        descriptors.append(len(os.listdir("/proc/self/fd")))
    assert len(memory) == _TASKS
    # Means, since some sessions begin or end at any moment.
    for what, seen in (("memory", memory), ("descriptors", descriptors)):
        first, last = mean(seen[_FIRST:][:_MANY]), mean(seen[-_MANY:])
        print(f"{what}: {first:.0f}, in the end {last / first:.3f} of that")
        assert last <= 1.05 * first, what
