"""The rows of `make test-all` tell what became of their tests, and what this machine lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import everywhere

_PROGRAM = Path(everywhere.__file__)
# In one process, and without the settings and the plugins of these tests: loading those takes most of a run.
_ALONE = (
    *("-c", os.devnull, "--numprocesses=0"),
    *(word for name in ("anyio", "asyncio", "cacheprovider", "hypothesispytest") for word in ("-p", f"no:{name}")),
)
_TESTS = """
import pytest
def test_that_passes(): pass
def test_that_fails(): assert 0
def test_that_is_skipped(): pytest.skip("the probe said no")
@pytest.fixture
def broken(): raise OSError("gone")
def test_with_a_broken_fixture(broken): pass
"""


def test_a_row_counts_its_tests_and_gives_reasons(tmp_path: Path) -> None:
    (tmp_path / "test_row.py").write_text(_TESTS)
    outcome = everywhere.run_pytest([sys.executable], [*_ALONE, str(tmp_path)], os.environ)
    assert (outcome.passed, len(outcome.failed), dict(outcome.skipped)) == (1, 2, {"the probe said no": 1})
    assert not outcome.is_good
    assert everywhere.summary({"3.11": outcome})[2:] == [
        "3.11             1 passed, 2 failed, 1 skipped, 0 s",
        f"  failed: {outcome.failed[0]}",
        f"  failed: {outcome.failed[1]}",
        "  skipped, 1 times: the probe said no",
    ]


def test_a_row_without_tests_is_no_good_row(tmp_path: Path) -> None:
    outcome = everywhere.run_pytest([sys.executable], [*_ALONE, str(tmp_path)], os.environ)
    assert not outcome.is_good


def test_an_interpreter_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(everywhere.NotRun, match=r"no python3\.99 on the path"):
        everywhere.interpreter("3.99")
    outcome = everywhere.Outcome(problem="no python3.99 on the path", is_run=False)
    assert everywhere.summary({"3.99": outcome})[-1] == "3.99             not run: no python3.99 on the path"


def test_an_interpreter_that_does_not_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python3.99"
    program.write_text("#!/bin/sh\necho it was not installed >&2\nexit 127\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(everywhere.NotRun, match=r"python3\.99 does not run: it was not installed"):
        everywhere.interpreter("3.99")


def test_a_run_without_any_row_is_no_success(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    copy = tmp_path / "checkout/tests/everywhere.py"  # where no environment is ready
    copy.parent.mkdir(parents=True)
    copy.write_bytes(_PROGRAM.read_bytes())
    (tmp_path / "checkout/pyproject.toml").touch()
    done = subprocess.run(
        [sys.executable, copy, "--row", "3.12"], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "3.12             not run: no python3.12 on the path: No such file or directory" in done.stdout
