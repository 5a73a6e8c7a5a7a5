"""Commands on a shared machine, in CI and as a service: kills, limits of the system, and what an operator sees."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.command_line import diagnosis, nothing_outlives_its_command, paddock
from integration.conftest import WriteModule
from paddock.workers.exit_report import ExitReport, ExitStatus
from paddock_sandbox.cgroup import CgroupReadings

_PARENT = """
    import os, select

    from amplifier_core.models import ToolResult

    class Parent:
        name = "wait"
        description = "waits for a child that takes too much memory"
        input_schema = {"type": "object"}

        async def execute(self, input):
            read, write = os.pipe()  # the parent keeps the end it never reads anything from
            if os.fork() == 0:
                taken = []
                while True:
                    taken.append(b"x" * (1 << 20))
            select.select([read], [], [])
            return ToolResult(output="never")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Parent())
"""


@pytest.fixture(autouse=True)
def _nothing_outlives_its_command(
    nothing_is_left_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with nothing_outlives_its_command(tmp_path / "scratch", monkeypatch):
        yield


def test_a_child_killed_for_memory_ends_the_call_that_waits(write_module: WriteModule) -> None:
    memory = next(one for one in diagnosis()["limits"] if one["limit"] == "memory_max")
    if "cgroup" not in (memory["mechanism"] or ""):
        pytest.skip(f"no control group counts memory here: {memory}")
    source = write_module("tool-wait", _PARENT)
    done = paddock("call", source, "wait", "--json", "--limit", "memory_max=128M", "--limit", "runtime_max=10min")
    told = json.loads(done.stdout)["error"]["report"]
    assert done.returncode == 5
    assert (told["reason"], told["limit"]["name"], told["limit"]["mechanism"]) == (
        "memory",
        "memory_max",
        "cgroup memory",
    )


def test_a_kill_for_the_memory_of_others_is_told_apart() -> None:
    used = CgroupReadings(memory_peak=9 << 20, memory_kills=0, memory_kills_outside=1)
    status = ExitStatus(None, signal.SIGKILL, 1.0, used=used)
    assert "the group that Paddock runs in" in ExitReport.of("tool-x", status).describe()
    assert "memory" not in ExitReport.of("tool-x", ExitStatus(None, signal.SIGKILL, 1.0)).describe()
