"""`paddock doctor` on this machine, and in what ordinary containers are like: it is right, and its remedies work.

What it says is held against what a session then does. Root tries it as an ordinary user as well.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from escape.ordinary_user import USER, as_ordinary_user, home_of_its_own, require_root
from integration.command_line import diagnosis, paddock, reachable_level
from paddock.isolation.remedies import CALLS_FOR_NAMESPACES
from paddock.plan.limits import Limits, Totals
from paddock_sandbox.profile import ISOLATION_LEVELS

_SECONDS = 200  # for one examination or one call; hit only by a hang
_CANNOT = 77  # what the stand-in for a container ends with where it cannot be set up
_ROOT = Path(__file__).resolve().parents[2]
_CONTAINER = _ROOT / "tests" / "container.py"
_COMMAND = "from paddock.cli import main; main()"
_ASK = "import json, sys; print(json.dumps([sys.executable, sys.path]))"
_READ = ("call", "tool-filesystem", "read_file", '{"file_path": "notes.txt"}', "--allow-read=.", "--json")

# The stand-in for a container with a filter that lets the calls through which the remedy names.
_MENDED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import container
allowed = sys.argv.pop(1).split(",")
container.REFUSED = [name for name in container.REFUSED if name not in allowed]
container._NEW_NAMESPACES = 0 if "clone" in allowed else container._NEW_NAMESPACES
container.main()
"""


def _told(done: subprocess.CompletedProcess[str]) -> Mapping[str, Any]:
    if done.returncode == _CANNOT:
        pytest.skip(done.stderr)
    assert done.stdout.count("\n") == 1, done.stderr
    told: Mapping[str, Any] = json.loads(done.stdout)
    return told


def _level(told: Mapping[str, Any], level: str) -> Mapping[str, Any]:
    (found,) = [one for one in told["levels"] if one["level"] == level]
    return found  # type: ignore[no-any-return]


def _run(*args: str, through: tuple[str, ...] = (), user: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command, `through` others; as an ordinary user where one of those makes us one, or `user` says so."""
    is_user = user or "--user" in through
    with home_of_its_own() as home:
        if not is_user:
            os.chown(home, os.geteuid(), os.getegid())  # workers of root give up the right to enter what is others'
        work = home / "work"  # a grant of the home itself is refused where nothing hides what Paddock keeps in it
        work.mkdir()
        os.chown(work, home.stat().st_uid, home.stat().st_gid)
        (work / "notes.txt").write_text("noted")
        command = _users_command() if is_user else [sys.executable, "-c", _COMMAND]
        return subprocess.run(
            [*through, *command, *args],
            cwd=work,
            env={"HOME": str(home), "TMPDIR": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"},
            **({"user": USER, "group": USER, "extra_groups": []} if user else {}),
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )


@functools.cache
def _examined(through: tuple[str, ...] = (), user: bool = False) -> subprocess.CompletedProcess[str]:
    """Have the doctor examine a machine, once."""
    return _run("doctor", "--json", through=through, user=user)


@functools.cache
def _users_command() -> tuple[str, ...]:
    """Return our command as a user can start it who cannot reach our environment."""
    with home_of_its_own() as home:
        done = as_ordinary_user(_ASK, home=home, seconds=_SECONDS)
    assert done.returncode == 0, done.stderr
    interpreter, path = json.loads(done.stdout)
    return (interpreter, "-I", "-B", "-c", f"import sys; sys.path[:] = {path}; {_COMMAND}")


def _in_container(*options: str) -> tuple[str, ...]:
    return (sys.executable, str(_CONTAINER), *options, "--")


def _in_mended_container(*options: str) -> tuple[str, ...]:
    return (sys.executable, "-c", _MENDED, str(_CONTAINER.parent), ",".join(CALLS_FOR_NAMESPACES), *options, "--")


# -- on this machine -----------------------------------------------------------------------


def test_it_tells_scripts_all_there_is_to_know() -> None:
    done = paddock("doctor", "--json")
    told = _told(done)
    assert [found["level"] for found in told["levels"]] == list(ISOLATION_LEVELS)
    assert told["ok"] == any(_level(told, level)["reachable"] for level in ("ns", "bwrap"))
    assert done.returncode == (0 if told["ok"] else 1)
    totals = [*Totals.model_fields]
    names = [*Limits.model_fields, *totals, *(f"user_limits.{name}" for name in totals)]
    assert [found["limit"] for found in told["limits"]] == names
    assert told["machine"]["kernel"] == platform.release() and told["machine"]["uid"] == os.geteuid()
    assert told["machine"]["python"] == platform.python_version()
    assert told["machine"]["shares_objects"] == (sys.version_info >= (3, 12))
    controllers = {*told["cgroups"]["controllers"], *(one["controller"] for one in told["cgroups"]["problems"])}
    assert controllers == {"memory", "pids", "cpu"}
    for found in told["levels"]:
        assert found["reachable"] == (found["step"] is None) == (found["reason"] is None)


def test_it_tells_people_the_same_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = paddock("doctor")
    told = diagnosis()
    assert done.returncode == (0 if told["ok"] else 1)
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    for found in told["levels"]:
        is_said = f"  {found['level']:10}{'available' if found['reachable'] else 'unavailable: '}"
        assert any(line.startswith(is_said) for line in done.stdout.splitlines())
    for limit in Limits.model_fields:
        assert f" {limit} " in done.stdout
    assert ("some 4 MiB" if told["machine"]["shares_objects"] else "some 9 MiB") in done.stdout


def test_a_session_gets_the_level_that_it_promises(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("noted")
    done = paddock(*_READ, cwd=tmp_path)
    assert json.loads(done.stdout)["success"] is True, done.stderr
    assert f"isolation: {diagnosis()['level'] or reachable_level()}" in done.stderr.splitlines()


def test_a_limit_is_refused_exactly_where_it_says_that_nothing_enforces_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("noted")
    reachable_level()
    limits = {"cpu_quota": "50%", "tmp_max": "4M", "memory_max": "200M", "tasks_max": "20"}
    enforced = {one["limit"] for one in diagnosis()["limits"] if one["mechanism"]}
    # Those that are enforced in one call, and each of the others in one of its own.
    together = [f"{limit}={value}" for limit, value in limits.items() if limit in enforced]
    done = paddock(*_READ, *(f"--limit={limit}" for limit in together), cwd=tmp_path)
    assert json.loads(done.stdout)["success"] is True, done.stderr
    for limit in limits.keys() - enforced:
        done = paddock(*_READ, "--limit", f"{limit}={limits[limit]}", cwd=tmp_path)
        assert (done.returncode, json.loads(done.stdout)["error"]["type"]) == (1, "UnenforcedLimitError"), limit


@pytest.mark.exhaustive
def test_it_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    groups = {Path(place["directory"]) for place in diagnosis()["cgroups"]["places"]}
    with subprocess.Popen([sys.executable, "-c", _COMMAND, "doctor", "--json"], stderr=subprocess.PIPE) as process:
        _, errors = process.communicate(timeout=_SECONDS)
    assert errors == b""
    assert list(tmp_path.iterdir()) == []
    # Others may be examining the machine at the same time.
    assert not [left for group in groups for left in group.glob(f"paddock-{process.pid}-*")]


@pytest.mark.exhaustive
def test_as_an_ordinary_user_it_is_right_as_well() -> None:
    require_root()
    told = _told(_examined(user=True))
    assert told["machine"]["uid"] == USER and told["machine"]["capabilities"] == []
    assert all(one["fix"] for one in told["cgroups"]["problems"])
    done = _run(*_READ, user=True)
    assert (done.returncode == 0) == told["ok"], done.stderr
    if told["ok"]:
        assert f"isolation: {told['level']}" in done.stderr.splitlines()


# -- in a container ------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [("--user",), pytest.param((), marks=pytest.mark.exhaustive)], ids=["user", "root"])
def test_in_an_ordinary_container_it_names_the_filter_and_what_to_do(options: tuple[str, ...]) -> None:
    require_root()
    done = _examined(_in_container(*options))
    told = _told(done)
    assert (done.returncode, told["ok"], told["level"]) == (1, False, None)
    ns = _level(told, "ns")
    assert (ns["reachable"], ns["step"], ns["errno"]) == (False, "namespaces", "EPERM")
    assert "filter of system calls" in ns["fix"] and "sethostname" in ns["fix"]
    assert f"hint: {ns['fix']}" in _run(*_READ, through=_in_container(*options)).stderr.splitlines()
    assert told["machine"]["seccomp_mode"] == 2
    assert {one["why"] for one in told["cgroups"]["problems"]} <= {"read-only", "not visible", "not mounted"}
    assert all(one["fix"] for one in told["cgroups"]["problems"])
    assert told["limits_level"] == "landlock" and _level(told, "landlock")["missing_guarantees"]
    (cpu,) = [one for one in told["limits"] if one["limit"] == "cpu_quota"]
    assert (cpu["mechanism"], cpu["best_effort"]) == (None, True) and cpu["fix"]


@pytest.mark.parametrize("options", [("--user",), pytest.param((), marks=pytest.mark.exhaustive)], ids=["user", "root"])
def test_a_container_needs_the_weaker_level_accepted(options: tuple[str, ...]) -> None:
    require_root()
    through = _in_container(*options)
    refused = _run(*_READ, through=through)
    assert (refused.returncode, _told(refused)["error"]["type"]) == (1, "IsolationUnavailableError")
    assert "ns: namespaces: clone: Operation not permitted (EPERM)" in refused.stderr
    assert "filter of system calls" in refused.stderr
    assert "hint: `--isolation landlock` accepts the weaker level `landlock`" in refused.stderr.splitlines()
    accepted = _run(*_READ, "--isolation", "landlock", through=through)
    assert accepted.returncode == 0, accepted.stderr
    assert "noted" in json.loads(accepted.stdout)["output"]["content"]
    assert accepted.stderr.startswith("warning: weaker isolation, level landlock: tool-filesystem; not given:\n  - ")


@pytest.mark.exhaustive
def test_the_named_system_calls_suffice_in_a_container() -> None:
    require_root()
    outside = _level(_told(_examined(user=True)), "ns")
    if not outside["reachable"]:
        pytest.skip(f"an ordinary user gets no namespaces here without a container either: {outside}")
    told = _told(_examined(_in_mended_container("--user")))
    assert told["level"] == "ns", _level(told, "ns")
    assert told["proc"]["reachable"] is False and told["proc"]["fix"]
    done = _run(*_READ, through=_in_mended_container("--user"))
    assert done.returncode == 0 and "isolation: ns" in done.stderr.splitlines(), done.stderr


@pytest.mark.exhaustive
def test_root_in_a_container_is_advised_to_be_an_ordinary_user() -> None:
    require_root()
    told = _told(_examined(_in_mended_container()))
    ns = _level(told, "ns")
    if ns["reachable"]:
        pytest.skip(f"this container's root can have namespaces: {ns}")
    assert "run Paddock as an ordinary user" in ns["fix"]
