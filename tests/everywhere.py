"""Run the tests wherever they have to pass: `python tests/everywhere.py [--row NAME]... [PYTEST ARGUMENT...]`.

One row for each supported version of Python, in an environment of its own below `.environments`; one for an ordinary
user with bubblewrap, where a test that was skipped for want of it counts as failed; and two for a usual container
(`tests/container.py`): as root, and as a user without any privilege. The last lines sum each row up, with the reasons
of skipped tests; a row that cannot be run here says why. The exit code is 1 when a test failed in any row, or when no
row could be run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_ENVIRONMENTS = _ROOT / ".environments"
_CONTAINER = _ROOT / "tests" / "container.py"
_VERSIONS = ("3.11", "3.12", "3.13")
_NOBODY = 65534
_OWN_USER = 64_320  # that no system gives out, so that nothing counts its tasks but the tests
_CANNOT = 77  # the container's exit code when it cannot be set up
_IN_FULL = {"PADDOCK_EXHAUSTIVE": "1"}  # also what `make test` leaves out
_NEW_ENOUGH = "import sys, venv, ensurepip; print(sys.executable)"
_FOR_WANT_OF_BUBBLEWRAP = ("bubblewrap: ", "bubblewrap is ")  # in the reasons of such skips
_BECOME = """
import os, sys
user = int(sys.argv[1])
os.setgroups([])
os.setgid(user)
os.setuid(user)
os.execv(sys.argv[2], sys.argv[2:])
"""
_NEEDED = "import anyio, click, hypothesis, msgpack, psutil, pydantic, pytest, rich, yaml"
# What depends on the means of the kernel. Tests of whole commands want a level with namespaces, which is not to be had.
_IN_CONTAINER = ("tests/sandbox", "tests/host/workers", "tests/integration/test_doctor.py")


class NotRun(Exception):
    """Raised for a row that cannot be run here; the message says why."""


@dataclass
class Outcome:
    """What became of the tests of a row; `problem` says why there are none, or what else went wrong."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    problem: str = ""
    is_run: bool = True

    @property
    def is_good(self) -> bool:
        return not self.failed and not (self.is_run and self.problem)

    def __str__(self) -> str:
        if not self.is_run:
            return f"not run: {self.problem}"
        counts = (
            f"{self.passed} passed, {len(self.failed)} failed, {self.skipped.total()} skipped, {self.seconds:.0f} s"
        )
        return f"{counts}; {self.problem}" if self.problem else counts


def main() -> int:
    """Run the rows, say what became of each, and return the exit code."""
    rows: dict[str, Callable[[list[str]], Outcome]] = {
        **{version: partial(_on_version, version) for version in _VERSIONS},
        "user, bwrap": _as_user,
        "container, root": partial(_in_container, False),
        "container, user": partial(_in_container, True),
    }
    parser = argparse.ArgumentParser(description="Run the tests wherever they have to pass.")
    parser.add_argument("--row", action="append", choices=rows, help="only this one; may be repeated")
    parser.add_argument("--set-up", action="store_true", help="only make the environment of the ordinary user")
    options, arguments = parser.parse_known_args()
    if options.set_up:
        with _ordinary_user():
            return 0
    outcomes: dict[str, Outcome] = {}
    for name in options.row or rows:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        try:
            outcomes[name] = rows[name](arguments)
        except NotRun as reason:
            outcomes[name] = Outcome(problem=str(reason), is_run=False)
        outcomes[name].seconds = time.monotonic() - began
    print("\n".join(summary(outcomes)))
    return int(not all(one.is_good for one in outcomes.values()) or not any(one.is_run for one in outcomes.values()))


def summary(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return the last lines: one for each row, with failed tests and the reasons of skipped ones below it."""
    lines = ["", "== summary"]
    for name, outcome in outcomes.items():
        lines.append(f"{name:16} {outcome}")
        lines += [f"  failed: {test}" for test in outcome.failed]
        lines += [f"  skipped, {count} times: {reason}" for reason, count in outcome.skipped.most_common()]
    return lines


# -- the rows


def _on_version(version: str, arguments: list[str]) -> Outcome:
    return run_pytest([str(_environment(version))], arguments)


def _as_user(arguments: list[str]) -> Outcome:
    """Run the tests as a user who is not root, in an environment that this user can read."""
    if shutil.which("bwrap", path=os.defpath) is None:
        raise NotRun("bubblewrap is not installed: the package is `bubblewrap`")
    if os.geteuid() != 0:
        return _with_bubblewrap(run_pytest([sys.executable], arguments))
    with _ordinary_user() as (python, home, environ):
        chosen = [*arguments, *_files(python, arguments, environ), f"--basetemp={home}/home/t"]
        return _with_bubblewrap(run_pytest(python, chosen, environ, home / "results"))


@contextmanager
def _ordinary_user() -> Iterator[tuple[list[str], Path, dict[str, str]]]:
    """Yield the command of an interpreter as a user who is not root, a folder of this user, and the environment.

    Raises:
        NotRun: the user can run no interpreter, or the packages cannot be installed.
    """
    become = [sys.executable, "-I", "-c", _BECOME, str(_OWN_USER)]
    with _home_of(_OWN_USER) as (home, environ):
        python = _environment("user", _readable(become, environ))
        environ["PATH"] = os.pathsep.join((str(python.parent), os.defpath))
        yield [*become, str(python)], home, environ


def _files(python: Sequence[str], arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the files of the tests that `-k` chooses: each of several processes would collect all others as well."""
    if "-k" not in arguments:
        return []
    command = [*python, "-m", "pytest", "-qq", "--collect-only", *arguments]
    done = subprocess.run(command, cwd=_ROOT, env={**environ, **_IN_FULL}, capture_output=True, text=True)
    counted = [line.rpartition(": ") for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return [file for file, _, count in counted if count.isdecimal()]


def _readable(become: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return an interpreter for an environment that the user can run.

    Raises:
        NotRun: there is none.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    tried = []
    for python in filter(None, (getattr(sys, "_base_executable", None), shutil.which(version, path=os.defpath))):
        done = subprocess.run(
            [*become, python, "-c", _NEW_ENOUGH], env=environ, capture_output=True, text=True, cwd="/"
        )
        if done.returncode == 0:
            return python
        tried.append(f"{python}: {(done.stderr.strip().splitlines() or ['it fails'])[-1]}")
    raise NotRun(f"no interpreter that an ordinary user can run: {'; '.join(tried)}")


def _with_bubblewrap(outcome: Outcome) -> Outcome:
    """Count tests as failed that were skipped for want of bubblewrap, which is there."""
    for reason in [one for one in outcome.skipped if any(words in one for words in _FOR_WANT_OF_BUBBLEWRAP)]:
        outcome.failed.append(f"{outcome.skipped.pop(reason)} skipped: {reason}")
    return outcome


@contextmanager
def _home_of(owner: int) -> Iterator[tuple[Path, dict[str, str]]]:
    """Make a home and a place for results that belong to a user; yield their folder, and the environment to run in."""
    with tempfile.TemporaryDirectory(prefix="paddock-", dir="/tmp") as folder:
        home = Path(folder)
        os.chmod(home, 0o755)
        for made in (home / "home", home / "results"):
            made.mkdir()
            _give(made, owner)
        yield (
            home,
            {
                **os.environ,
                "HOME": str(home / "home"),
                "TMPDIR": str(home / "home"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "home"),
            },
        )


def _in_container(is_user: bool, arguments: list[str]) -> Outcome:
    environment = _environment(f"{sys.version_info.major}.{sys.version_info.minor}")
    with _home_of(_NOBODY if is_user else os.geteuid()) as (home, environ):
        container = [sys.executable, str(_CONTAINER), *(["--user"] if is_user else []), "--"]
        if is_user:
            environ["PYTHONPATH"] = os.pathsep.join(_packages(environment))
        python = _reachable(container, environment, environ)
        chosen = [*(arguments or _IN_CONTAINER), f"--basetemp={home}/home/t"]
        return run_pytest([*container, python], chosen, environ, home / "results")


def run_pytest(
    python: Sequence[str],
    arguments: Sequence[str],
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Run pytest with these arguments and return what became of the tests; `folder` takes its report."""
    with tempfile.TemporaryDirectory() as made:
        report = (folder or Path(made)) / "report.xml"
        command = [*python, "-m", "pytest", "-q", "--tb=short", f"--junitxml={report}", *_at_once(), *arguments]
        code = subprocess.run(command, cwd=_ROOT, env={**(environ or os.environ), **_IN_FULL}).returncode
        if not report.exists():
            return Outcome(problem=f"pytest ended with {code}, without a report")
        outcome = _read(report)
    if code not in (0, 1):
        outcome.problem = f"pytest ended with {code}"
    return outcome


def _at_once() -> list[str]:
    return [f"--numprocesses={os.environ.get('TEST_PROCESSES') or 2}", "--dist=worksteal"]


def _read(report: Path) -> Outcome:
    outcome = Outcome()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed.append(name)
        elif skipped is not None:
            outcome.skipped[" ".join(skipped.get("message", "").split())] += 1
        else:
            outcome.passed += 1
    return outcome


# -- interpreters


def _environment(name: str, found: str = "") -> Path:
    """Return the interpreter of an environment with everything that tests need, made if it is not up to date.

    It is made with the interpreter `found`, else with that of the version that the environment is named after.

    Raises:
        NotRun: there is no such interpreter, or the packages cannot be installed.
    """
    folder = _ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "ready"
    wanted = (_ROOT / "pyproject.toml").read_bytes()
    if not stamp.exists() or stamp.read_bytes() != wanted:
        found = found or interpreter(name)
        print(f"setting up {folder}", file=sys.stderr, flush=True)
        _do([found, "-m", "venv", "--clear", str(folder)])
        _do(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--editable",
                f"{_ROOT}[dev,ray]",
            ]
        )
        stamp.write_bytes(wanted)
    return python


def interpreter(version: str) -> str:
    """Return an interpreter that the path leads to, also through pyenv, which needs the version's name.

    Raises:
        NotRun: there is none, or it does not run.
    """
    command, tried = f"python{version}", []
    for environ in ({}, {"PYENV_VERSION": version}):
        try:
            done = subprocess.run(
                [command, "-c", _NEW_ENOUGH], env={**os.environ, **environ}, capture_output=True, text=True
            )
        except OSError as error:
            raise NotRun(f"no {command} on the path: {error.strerror}") from None
        if done.returncode == 0:
            return done.stdout.strip()
        tried.append(" ".join(done.stderr.split()))
    raise NotRun(f"{command} does not run: {tried[0]}")


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotRun(f"{' '.join(command)} failed: {' '.join(done.stderr.split())[-500:]}")


def _reachable(container: Sequence[str], environment: Path, environ: Mapping[str, str]) -> str:
    """Return the environment's interpreter, or the system's of that version, whichever runs there with the packages.

    Raises:
        NotRun: the container cannot be set up, or an ordinary user can reach no interpreter or not the packages.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    tried = []
    for python in (str(environment), shutil.which(version, path=os.defpath)):
        if python is None:
            continue
        done = subprocess.run([*container, python, "-c", _NEEDED], env=environ, capture_output=True, text=True, cwd="/")
        if done.returncode == 0:
            return python
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        if done.returncode == _CANNOT:
            raise NotRun(last)
        tried.append(f"{python}: {last}")
    raise NotRun("; ".join(tried))


def _packages(environment: Path) -> list[str]:
    ask = "import sysconfig; print(sysconfig.get_path('platlib'))"
    done = subprocess.run([str(environment), "-c", ask], capture_output=True, text=True, check=True)
    return [*(str(_ROOT / name) for name in ("host", "sdk", "sources")), done.stdout.strip()]


def _give(path: Path, owner: int) -> None:
    if os.geteuid() == 0:
        os.chown(path, owner, owner)


if __name__ == "__main__":
    sys.exit(main())
