"""What processes of Paddock are called in `/proc`, where people look for them."""

from __future__ import annotations

from pathlib import Path

import anyio
import psutil
import pytest

from host.workers.conftest import Needs, is_of_these_tests
from host.workers.levels import ONE_WAY_TO_EACH, TAG, Levels, Way
from host.workers.waiting import PATIENCE


def called(pid: int) -> tuple[str, str]:
    folder = Path(f"/proc/{pid}")
    return (folder / "cmdline").read_bytes().rstrip(b"\0").decode(), (folder / "comm").read_text().rstrip("\n")


@pytest.mark.parametrize("way", ONE_WAY_TO_EACH, ids=str)
async def test_a_worker_and_those_above_it_say_what_they_are(
    levels: Levels, needs: Needs, scratch: Path, way: Way
) -> None:
    await needs(way.level)
    launcher = levels.launcher(way)
    with anyio.fail_after(PATIENCE):
        process = await launcher.launch(levels.spec(way.level, scratch))
        assert called(process.pid) == (f"paddock: tool-x [{TAG}]", "tool-x")
        assert called(process.init_pid) == (f"paddock: init of tool-x [{TAG}]", "paddock-init")
        if way.by == "template":
            above = psutil.Process(process.init_pid).ppid()
            host = psutil.Process(above).ppid()
            assert called(above) == (f"paddock: template [host {host}]", "paddock-templat")
            assert is_of_these_tests(str(above))
        assert all(is_of_these_tests(str(pid)) for pid in (process.pid, process.init_pid))
        await process.stop(0)
        process.rpc.close()
        await launcher.aclose()
