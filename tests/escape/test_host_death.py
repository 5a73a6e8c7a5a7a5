"""A host that is killed outright takes everything along that its modules started, also what wanted to live on."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from escape.reachable import skip_or_fail
from paddock.selftest import LEVELS
from paddock.selftest.testbed.testbed import ATTACKER
from paddock.workers.scratch import sweep

_SECONDS = 60.0  # from the end of the host to the end of all


def _is_held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", LEVELS)
def test_nothing_of_a_module_outlives_a_host_that_is_killed(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if level == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what a killed host has there, the next one would remove
    workspace = tmp_path / "work"
    workspace.mkdir()
    host = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("doomed_host.py")), level, str(ATTACKER), str(workspace)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with host:
        assert host.stdout is not None
        said = host.stdout.readline()
        if "unavailable on this machine" in said:
            skip_or_fail(level, said)
        assert said == "here\n"
        locks = [workspace / "leave_a_daemon", workspace / "refuse_to_end"]
        assert all(_is_held(lock) for lock in locks), "they live as long as the host does"
        host.kill()
        deadline = time.monotonic() + _SECONDS
        while any(_is_held(lock) for lock in locks) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [lock.name for lock in locks if _is_held(lock)] == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert list(tmp_path.glob("paddock-*"))
    sweep()
    assert not list(tmp_path.glob("paddock-*"))
