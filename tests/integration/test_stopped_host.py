"""A host that is stopped for a while, as by Ctrl-Z or a suspended machine, and goes on: nobody pays for that time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from integration.command_line import wait_until
from integration.conftest import WriteModule
from integration.tricky_tool import json_output
from support.examples import repeating

_SECONDS = 60  # hit only by a hang
_LIMITS = {"call": ("runtime_max", 2), "mount": ("start_max", 3)}  # in seconds; a start is in the one of a mount
_WAITING = """
    import asyncio
    from pathlib import Path

    from amplifier_core.models import ToolResult

    FOLDER = Path({folder!r})

    async def wait(where):
        (FOLDER / where).touch()
        while not (FOLDER / f"go on from {{where}}").exists():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # work that takes its time
        (FOLDER / f"went on from {{where}}").touch()

    class Waiting:
        name = "waiting"
        description = "answers when a file is there"

        async def execute(self, input):
            await wait("call")
            return ToolResult(output="answered" * 100_000)  # more than is read at once

    async def mount(coordinator, config):
        await wait("mount")
        await coordinator.mount("tools", Waiting())
"""


@pytest.mark.exhaustive("mount-")
@pytest.mark.parametrize(
    ("waits_in", "goes_on"),
    [
        ("call", "while the host is stopped"),
        ("mount", "afterwards"),
        *repeating(("call", "afterwards"), ("mount", "while the host is stopped")),
    ],
)
def test_a_module_keeps_its_time_while_the_host_is_stopped(
    in_tmp_path: None,
    write_module: WriteModule,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    waits_in: str,
    goes_on: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent / "state"))
    with _calling(write_module, folder, waits_in) as host:
        with _stopped(host, folder, waits_in):
            if goes_on == "while the host is stopped":
                (folder / f"go on from {waits_in}").touch()
                wait_until((folder / f"went on from {waits_in}").exists)
        (folder / f"go on from {waits_in}").touch()
        assert json_output(_ended(host, 0))["output"] == "answered" * 100_000
    # An answer that is read late counts even if its module was ended meanwhile.
    audit = (folder.parent / "state/paddock/audit.jsonl").read_text().splitlines()
    ends = [one["report"]["reason"] for one in map(json.loads, audit) if one["event"] == "module.ended"]
    assert ends == ["exited"]


@pytest.mark.exhaustive
def test_a_module_that_overstays_is_ended_also_after_the_host_was_stopped(
    in_tmp_path: None, write_module: WriteModule, folder: Path
) -> None:
    with _calling(write_module, folder, "call") as host:
        with _stopped(host, folder, "call"):
            pass
        report = json_output(_ended(host, 5))["error"]["report"]
    assert (report["reason"], report["limit"]["name"]) == ("timeout", "runtime_max")
    assert not (folder / "went on from call").exists()


@contextmanager
def _calling(write_module: WriteModule, folder: Path, waits_in: str) -> Iterator[subprocess.Popen[str]]:
    """Start a call of the tool as a process of its own, with few seconds for where it waits."""
    source = write_module("tool-waiting", _WAITING.format(folder=str(folder)))
    (folder / f"go on from {'mount' if waits_in == 'call' else 'call'}").touch()
    limit = "{}={}s".format(*_LIMITS[waits_in])
    command = [sys.executable, "-c", "from paddock.cli import main; main()", "call", source, "waiting", "{}", "--json"]
    command += [f"--allow-read={folder}", f"--allow-write={folder}", "--limit", limit]
    host = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    try:
        yield host
    finally:
        host.kill()
        host.wait()


@contextmanager
def _stopped(host: subprocess.Popen[str], folder: Path, waits_in: str) -> Iterator[None]:
    """Stop the host once the module waits, and let it go on only when the module's time is over by any clock."""
    wait_until((folder / waits_in).exists)
    os.kill(host.pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(host.pid).status() == psutil.STATUS_STOPPED)
    over = time.monotonic() + _LIMITS[waits_in][1] + 0.5
    yield
    wait_until(lambda: time.monotonic() > over)
    os.kill(host.pid, signal.SIGCONT)


def _ended(host: subprocess.Popen[str], code: int) -> subprocess.CompletedProcess[str]:
    stdout, stderr = host.communicate(timeout=_SECONDS)
    assert host.returncode == code, stderr
    return subprocess.CompletedProcess(host.args, host.returncode, stdout, stderr)
