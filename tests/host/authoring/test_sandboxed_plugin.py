"""The contract's own tests pass over the reference modules, each in sandboxed workers, and fail where they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from host.authoring.attack import Target, outcomes_outside
from host.authoring.conftest import Trials
from integration.command_line import reachable_level

_ROOT = Path(__file__).resolve().parents[3]
_SECONDS = 25
_KINDS = ("Tool", "Hook", "Provider", "Orchestrator", "Context")
_SUITE = """
from paddock_sdk.validation.behavioral import *
from paddock_sdk.validation.structural import *

""" + "".join(
    f"class Test{kind}{part}({kind}{part}Tests): pass\n" for kind in _KINDS for part in ("Behavior", "Structural")
)


def _run(module: Path, folder: Path, suite: str = _SUITE) -> tuple[int, str]:
    """Run pytest with the plugin over a module, and return how that ended and what it printed."""
    (folder / "suite").mkdir(exist_ok=True)
    (folder / "suite/test_suite.py").write_text(suite)
    (folder / "suite/pytest.ini").write_text("[pytest]\nanyio_mode = auto\nfilterwarnings = error\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "paddock.authoring.sandboxed_plugin"),
            *("-p", "no:asyncio", "-p", "no:cacheprovider", f"--module-path={module}"),
            *(f"--module-isolation={reachable_level()}", str(folder / "suite")),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (_ROOT / "host", _ROOT / "sdk", _ROOT / "sources")))},
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "passed"),
    [
        ("tool-filesystem", 8),
        ("provider-mock", 6),
        ("hooks-logging", 8),
        ("loop-basic", 7),
        ("context-simple", 9),
    ],
)
def test_the_reference_modules_do_in_a_sandbox_what_their_kind_does(module: str, passed: int, tmp_path: Path) -> None:
    code, printed = _run(_ROOT / "modules" / module, tmp_path)
    assert code == 0 and f"{passed} passed" in printed, printed


def test_the_tests_fail_for_a_module_that_does_otherwise(trials: Trials, tmp_path: Path) -> None:
    code = """
        class Tool:
            name, description, input_schema = "x", "", {}

            def execute(self, input):
                return "no result"

        async def mount(coordinator, config=None):
            await coordinator.mount("tools", Tool(), name="x")
    """
    exit_code, printed = _run(trials.write("tool-x", code), tmp_path)
    assert exit_code == 1
    for name in ("test_description_is_text", "test_execute_is_asynchronous", "test_structural_validation"):
        assert f"{name}" in printed, printed


def test_a_module_that_is_mounted_for_tests_gets_nowhere(trials: Trials, tmp_path: Path) -> None:
    with Target(tmp_path / "outside") as target:
        assert not any("refused" in outcome for outcome in outcomes_outside(target).values()) and target.was_hit
    with Target(tmp_path / "target") as target:
        code = f"""{target.code}
class Tool:
    name, description, input_schema = "x", json.dumps(OUTCOMES), {{}}

    async def execute(self, input):
        return None

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool(), name="x")
"""
        suite = """
import json

def test_it(tool_module):
    assert set(one.partition(":")[0] for one in json.loads(tool_module.description).values()) == {"refused"}
"""
        exit_code, printed = _run(trials.write("tool-x", code), tmp_path, suite)
        assert exit_code == 0 and "1 passed" in printed, printed
        assert not target.was_hit


def test_a_module_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    code, printed = _run(tmp_path / "nowhere", tmp_path, "def test_it(tool_module):\n    pass\n")
    assert code == 1 and "nowhere`: no such file" in printed, printed
