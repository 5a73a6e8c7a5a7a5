"""`paddock selftest`, as whoever runs the tests and, where that is root, as an ordinary user as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from escape.ordinary_user import USER, as_ordinary_user, home_of_its_own, require_root
from integration.command_line import paddock, reachable_level
from paddock.selftest import CATALOGUE

_ALL_SECONDS = 900  # for every attack at every level; hit only by a hang
_CONTAINER = Path(__file__).parents[1] / "container.py"
_NO_CONTAINER = 77  # its exit code where there can be none
_COMMAND = "from paddock.cli import main; main()"
# Held off by other means without control groups of one's own, and without namespaces: one of each.
_WITHOUT_GROUPS = ("eat_memory_in_several_processes", "start_a_fork_bomb", "leave_a_daemon_and_end_its_keeper")
_WITHOUT_NAMESPACES = ("kill_the_host", "connect_by_other_means")


def _some_or_all(*some: str) -> pytest.MarkDecorator:
    """Try these; what holds off the others is the same as for root at the same level."""
    return pytest.mark.parametrize("names", [some, pytest.param((), marks=pytest.mark.exhaustive)], ids=["some", "all"])


# Before what looks at the processes of these tests.
pytestmark = pytest.mark.usefixtures("_warm_commands")


def _require_levels(done: subprocess.CompletedProcess[str]) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(done.stdout)
    if not told.get("levels", True):
        pytest.skip(f"no level is to be had: {told['unreachable']}")
    return told


@pytest.mark.exhaustive
def test_it_tells_people_without_colour(warm_starts: None) -> None:
    level = reachable_level()
    done = paddock("selftest", "read_ssh_key", "--isolation", level, environ={"COLUMNS": "140", "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert "read_ssh_key" in done.stdout and "refused: " in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 attacks as ")


def test_an_attack_that_there_is_not_is_named_with_what_was_meant(warm_starts: None) -> None:
    done = paddock("selftest", "read_ssh_keys")
    assert done.returncode == 2
    assert "did you mean `read_ssh_key`?" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(_ALL_SECONDS + 20)
@_some_or_all(*_WITHOUT_NAMESPACES, *_WITHOUT_GROUPS)
def test_in_a_container_that_forbids_namespaces_attacks_are_contained(names: Sequence[str], tmp_path: Path) -> None:
    require_root()
    done = subprocess.run(
        [sys.executable, str(_CONTAINER), "--", sys.executable, "-c", _COMMAND, "selftest", *names, "--json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=_ALL_SECONDS,
        check=False,
    )
    if done.returncode == _NO_CONTAINER:
        pytest.skip(done.stderr.strip())
    told = _require_levels(done)
    assert told["levels"] == ["landlock"]
    assert "clone" in told["unreachable"]["ns"]["message"]
    assert told["problems"] == []
    assert done.returncode == 0, done.stderr
    assert [attack["name"] for attack in told["attacks"]] == [*(names or (attack.name for attack in CATALOGUE))]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(_ALL_SECONDS + 20)
@_some_or_all(*_WITHOUT_GROUPS)
def test_as_an_ordinary_user_attacks_are_contained(names: Sequence[str]) -> None:
    require_root()
    with home_of_its_own() as home:
        # The level below is held to all of them as root, and in the container above.
        command = ("selftest", *names, "--isolation", "ns", "--json")
        done = as_ordinary_user(_COMMAND, *command, home=home, seconds=_ALL_SECONDS)
        assert done.stdout, done.stderr
        told = _require_levels(done)
        left = [path.name for path in home.iterdir() if path.name != ".cache"]
    assert told["user"] == USER
    assert told["problems"] == []
    assert done.returncode == 0, done.stderr
    assert [attack["name"] for attack in told["attacks"]] == [*(names or (attack.name for attack in CATALOGUE))]
    assert left == []
