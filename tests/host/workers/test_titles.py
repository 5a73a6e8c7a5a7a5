"""What processes of Paddock are called in `/proc`, where people look for them."""

from __future__ import annotations

from pathlib import Path

import psutil

from host.workers.conftest import Launch, is_of_these_tests
from host.workers.levels import TAG, Way


def called(pid: int) -> tuple[str, str]:
    folder = Path(f"/proc/{pid}")
    return (folder / "cmdline").read_bytes().rstrip(b"\0").decode(), (folder / "comm").read_text().rstrip("\n")


async def test_a_worker_and_those_above_it_say_what_they_are(start: Launch, way: Way) -> None:
    process = await start()
    assert called(process.pid) == (f"paddock: tool-x [{TAG}]", "tool-x")
    assert called(process.init_pid) == (f"paddock: init of tool-x [{TAG}]", "paddock-init")
    if way.by == "template":
        above = psutil.Process(process.init_pid).ppid()
        host = psutil.Process(above).ppid()
        assert called(above) == (f"paddock: template [host {host}]", "paddock-templat")
        assert is_of_these_tests(str(above))
    assert all(is_of_these_tests(str(pid)) for pid in (process.pid, process.init_pid))
