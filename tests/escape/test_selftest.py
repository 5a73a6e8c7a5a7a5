"""`paddock selftest`, as whoever runs the tests and, where that is root, as an ordinary user as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from escape.ordinary_user import USER, as_ordinary_user, home_of_its_own, require_root
from paddock.selftest import CATALOGUE

_SECONDS = 200  # for a few attacks; hit only by a hang
_ALL_SECONDS = 900  # for every attack at every level; hit only by a hang
_CONTAINER = Path(__file__).parents[1] / "container.py"
_NO_CONTAINER = 77  # its exit code where there can be none
_COMMAND = "from paddock.cli import main; main()"
_FEW = ("read_ssh_key", "use_io_uring", "spin")


def _selftest(*args: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _COMMAND, "selftest", *args],
        env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "140", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )


def _require_levels(done: subprocess.CompletedProcess[str]) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(done.stdout)
    if not told.get("levels", True):
        pytest.skip(f"no level is to be had: {told['unreachable']}")
    return told


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for temporary files of the run of a few attacks."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def of_few(scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """What scripts read of a run of a few attacks; its home folder is its own, as that of each test is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.delenv(name, raising=False)
        return _selftest(*_FEW, "--json", tmp_path=scratch)


def test_it_tells_scripts_what_became_of_each_attack(of_few: subprocess.CompletedProcess[str], scratch: Path) -> None:
    done, told = of_few, _require_levels(of_few)
    assert (done.returncode, told["ok"], told["problems"]) == (0, True, []), done.stderr
    assert [attack["name"] for attack in told["attacks"]] == list(_FEW)
    for level in told["levels"]:
        by_name = {attack["name"]: attack["levels"][level] for attack in told["attacks"]}
        assert by_name["read_ssh_key"]["verdict"] == "refused"
        assert by_name["spin"]["verdict"] == "contained"
        assert by_name["spin"]["report"]["limit"]["name"] == "runtime_max"
    assert list(scratch.iterdir()) == []


def test_it_tells_people_without_colour(of_few: subprocess.CompletedProcess[str], tmp_path: Path) -> None:
    _require_levels(of_few)
    done = _selftest("read_ssh_key", tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "read_ssh_key" in done.stdout and "refused: " in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 attacks as ")


def test_an_attack_that_there_is_not_is_named_with_what_was_meant(tmp_path: Path) -> None:
    done = _selftest("read_ssh_keys", tmp_path=tmp_path)
    assert done.returncode == 2
    assert "did you mean `read_ssh_key`?" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(_ALL_SECONDS + 20)
def test_in_a_container_that_forbids_namespaces_every_attack_is_contained(tmp_path: Path) -> None:
    require_root()
    done = subprocess.run(
        [sys.executable, str(_CONTAINER), "--", sys.executable, "-c", _COMMAND, "selftest", "--json"],
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
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(_ALL_SECONDS + 20)
def test_as_an_ordinary_user_every_attack_is_contained() -> None:
    require_root()
    with home_of_its_own() as home:
        # The level below is held to all of them in the container above.
        done = as_ordinary_user(_COMMAND, "selftest", "--isolation", "ns", "--json", home=home, seconds=_ALL_SECONDS)
        assert done.stdout, done.stderr
        told = _require_levels(done)
        left = [path.name for path in home.iterdir() if path.name != ".cache"]
    assert told["user"] == USER
    assert told["problems"] == []
    assert done.returncode == 0, done.stderr
    assert [attack["name"] for attack in told["attacks"]] == [attack.name for attack in CATALOGUE]
    assert left == []
