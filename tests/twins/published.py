"""The published contract package in an environment of its own, for what is compared with ours.

It is made once for all processes of a test run: by uv, or where that cannot, by pip from the package index that pip is
set up for. Where neither can, tests are skipped with what pip said.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import amplifier_core
import pytest

__all__ = ["OURS", "Python", "published_in", "with_packages"]

VERSION: Final = amplifier_core.__version__
ACTS: Final = Path(__file__).parent / "acts"
_STAND_IN: Final = Path(amplifier_core.__file__).parents[1]
_PACKAGES: Final = (f"amplifier-core=={VERSION}", "pytest", "pytest-asyncio")
_SECONDS: Final = 600  # for a download, and for a file of acts on a busy machine; hit only by a hang


@dataclass(frozen=True)
class Python:
    """An interpreter that finds a contract package, the published one or ours."""

    executable: str
    path: str = ""
    #: How often it is run at most, if SIGSEGV or SIGABRT ends it. The published package's compiled part crashes in
    #: about one of forty runs on Python 3.13, and now and then at the end of one on a busy machine.
    tries: int = 1

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": self.path, "PATH": os.environ["PATH"]}

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the interpreter to its end, and again where it crashed."""
        for _ in range(self.tries):
            done = subprocess.run(
                [self.executable, *arguments],
                cwd=cwd,
                env=self.environment(),
                capture_output=True,
                encoding="utf-8",
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode not in (-signal.SIGSEGV, -signal.SIGABRT):
                break
        return done

    def outcomes(self, act: str, *arguments: str) -> Any:
        """Run a file of acts, and return the JSON that it prints last."""
        done = self.run(str(ACTS / act), *arguments)
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])


#: The interpreter of the tests, with the contract package that workers see.
OURS: Final = Python(sys.executable, f"{_STAND_IN}{os.pathsep}{_STAND_IN.parents[1]}")


def published_in(shared: Path) -> Python:
    """Return an interpreter with the published package, in a folder that test processes share; skip without one."""
    folder, failure = shared / "published", shared / "published.failure"
    with open(shared / "published.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if failure.exists():
            pytest.skip(failure.read_text())
        if not folder.exists():
            said = _make(folder)
            if said is not None:
                failure.write_text(said)
                pytest.skip(said)
    return Python(str(folder / "bin/python"), tries=3)


def with_packages(python: Python, shared: Path, names: Iterable[str]) -> Python:
    """Return the interpreter with distributions that are installed here, in a folder that test processes share.

    They are links to where they are installed: compiled there already, which takes as long as a hundred tests. By the
    folder's name hypothesis knows that they are nobody's own code, in all of which it would look for constants.
    """
    found = [metadata.distribution(name) for name in names]
    places = {Path(str(one.locate_file(file.parts[0]))) for one in found for file in one.files or ()}
    linked = sorted(place for place in places if place.name not in ("..", "__pycache__"))
    # The folder may be one that lasts from run to run, while what is required does not.
    folder = shared / f"linked-{sha256(repr(linked).encode()).hexdigest()[:16]}"
    with open(shared / "published.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = folder.with_suffix(".new")
            shutil.rmtree(made, ignore_errors=True)
            (made / "site-packages").mkdir(parents=True)
            for place in linked:
                (made / "site-packages" / place.name).symlink_to(place)
            made.rename(folder)
    return replace(python, path=str(folder / "site-packages"))


def _make(folder: Path) -> str | None:
    """Make the environment; return what kept it from being made."""
    made = folder.with_name("published.new")
    said = _failure_of([sys.executable, "-m", "venv", "--without-pip", "--clear", str(made)])
    if said is None:
        said = _installed(str(made / "bin/python"))
    if said is not None:
        return f"the published package {_PACKAGES[0]} cannot be installed: {said}"
    made.rename(folder)
    return None


def _installed(python: str) -> str | None:
    """Install the packages, which are compiled as far as they are used; return what kept them from being installed."""
    # In a thirtieth of pip's processor time; it knows only its own settings and no index that pip alone is set up for.
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", f"--python={python}")
    if _failure_of([*uv, *_PACKAGES]) is None:
        return None
    pip = (python, "-m", "pip", "install", "--quiet", "--retries=1", "--no-compile", "--upgrade")
    return _failure_of([python, "-m", "ensurepip"]) or _failure_of([*pip, *_PACKAGES])


def _failure_of(command: Sequence[str]) -> str | None:
    try:
        subprocess.run(command, capture_output=True, encoding="utf-8", timeout=_SECONDS, check=True)
    except subprocess.TimeoutExpired:
        return f"{command[0]} took more than {_SECONDS} s"
    except subprocess.CalledProcessError as error:
        return "".join(error.stderr.splitlines()[-1:]) or f"{command[0]} ended with {error.returncode}"
    return None
