"""Run a command of ours as a user without any privilege, where the interpreter can be found by one."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = 65534  # nobody; runs nothing that counts, and owns nothing

_ROOT = Path(__file__).resolve().parents[2]
_PROBE = "import anyio, click, msgpack, paddock.cli, paddock_sdk, paddock_sources, pydantic, rich, yaml"
_PROBE_SECONDS = 60


def require_root() -> None:
    """Skip where the tests are run by an ordinary user: what would be tried here is tried everywhere then."""
    if os.geteuid() != 0:
        pytest.skip(f"not run as root: all tests are an ordinary user's, of user {os.geteuid()}")


@contextmanager
def home_of_its_own() -> Iterator[Path]:
    """Make a folder that belongs to the user, in a place that everybody may go to."""
    home = Path(tempfile.mkdtemp(prefix="paddock-user-", dir="/tmp"))
    try:
        os.chown(home, USER, USER)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def as_ordinary_user(code: str, *args: str, home: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run Python code with our packages in reach; skips where no interpreter and no copy of them is."""
    return _run(_interpreter(), code, *args, home=home, seconds=seconds)


@functools.cache
def _interpreter() -> str:
    """Return an interpreter that the user may run, and that can load everything from where it is."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable, getattr(sys, "_base_executable", None), f"/usr/bin/{version}", shutil.which(version)]
    failures = []
    with home_of_its_own() as home:
        for candidate in dict.fromkeys(filter(None, candidates)):
            try:
                probe = _run(str(candidate), _PROBE, home=home, seconds=_PROBE_SECONDS)
            except OSError as error:
                failures.append(f"{candidate}: {error.strerror}")
                continue
            if probe.returncode == 0:
                return str(candidate)
            failures.append(f"{candidate}: {(probe.stderr.strip().splitlines() or ['it fails'])[-1]}")
    pytest.skip(f"no interpreter and packages in reach of an ordinary user: {'; '.join(failures)}")


def _run(interpreter: str, code: str, *args: str, home: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    folders = [*(str(_ROOT / name) for name in ("host", "sdk", "sources")), *_site_packages()]
    return subprocess.run(
        [interpreter, "-I", "-B", "-c", f"import sys; sys.path[:0] = {json.dumps(folders)}\n{code}", *args],
        user=USER,
        group=USER,
        extra_groups=[],
        cwd=home,
        env={"HOME": str(home), "TMPDIR": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=seconds,
        check=False,
    )


def _site_packages() -> list[str]:
    return list(dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")))
