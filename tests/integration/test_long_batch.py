"""A long run takes no more at its end than at its beginning."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from integration.tricky_tool import plan_of
from many_tasks.__main__ import main
from paddock.batch import run

_TASKS = 2000
_FIRST = 200  # by when everything has been loaded, and eight run at once


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_demonstration_is_as_it_should_be() -> None:
    assert main(24) == 0


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_memory_and_descriptors_are_those_of_the_first_tasks(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({"id": f"t{number}", "prompt": "hello"}) + "\n" for number in range(_TASKS)))
    process = psutil.Process()
    seen: dict[int, tuple[float, int]] = {}
    count = 0
    async for result in run(plan_of(tmp_path), tasks, out=tmp_path / "out", concurrency=8):
        assert result.status == "done", result.error
        count += 1
        if count in (_FIRST, _TASKS - 8):  # all places are taken
            seen[count] = (process.memory_info().rss, len(os.listdir("/proc/self/fd")))
    (first_memory, first_files), (memory, files) = seen.values()
    print(f"\nmemory {memory / first_memory:.3f} of {first_memory >> 20} MiB; descriptors {files} of {first_files}")
    assert count == _TASKS
    assert memory <= 1.05 * first_memory
    assert files <= 1.05 * first_files
