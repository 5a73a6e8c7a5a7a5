"""The contract's own tests pass over the reference modules, each in sandboxed workers, and fail where they should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from host.authoring.attack import attacked
from host.authoring.conftest import Trials
from integration.command_line import reachable_level
from paddock_sources.builtin import BuiltinSource
from support.examples import IN_FULL
from support.warm_pytest import WarmPytest
from support.warm_templates import WarmTemplates

_ROOT = Path(__file__).resolve().parents[3]
_SECONDS = 200  # for a run of pytest; hit only by a hang


def _suite_of(kind: str) -> str:
    """The text of a file with the contract's own tests of a kind."""
    names = (f"{kind}BehaviorTests", f"Strict{kind}Tests", f"{kind}StructuralTests")
    imports = "".join(f"from paddock_sdk.validation.{part} import *\n" for part in ("behavioral", "structural"))
    return imports + "".join(f"class Test{name}({name}): pass\n" for name in names)


_ABOUT = """
import pathlib
import pytest
from paddock_sdk.validation.module_under_test import ModuleUnderTest

@pytest.fixture
def module_under_test():
    return ModuleUnderTest.at(pathlib.Path({module!r}))
"""
# All warnings are errors, but that the process has loaded anyio before pytest could rewrite it.
_CONFIGURATION = """
[pytest]
anyio_mode = auto
filterwarnings =
    error
    ignore:Module already imported:pytest.PytestAssertRewriteWarning
"""
_PATHS = os.pathsep.join(str(_ROOT / name) for name in ("host", "sdk", "sources"))
_PLUGIN = ("-p", "paddock.authoring.sandboxed_plugin", "-p", "no:asyncio", "-p", "no:cacheprovider")
_IMPORTED = (
    *("paddock.authoring.module_sandbox", "paddock.workers.fork_server"),
    *("paddock_sdk.validation.behavioral", "anyio.pytest_plugin", "anyio._backends._asyncio"),
)
_NOT_NEEDED = tuple(f"-pno:{name}" for name in ("hypothesispytest", "timeout", "xdist", "xdist.looponfail"))


@dataclass
class Plugin:
    """Runs pytest with the plugin over test files."""

    pytest: WarmPytest
    folder: Path

    def run(self, *args: str, **suites: str) -> tuple[int, str]:
        """Return how a run ended and what it printed."""
        suite = self.folder / "suite"
        suite.mkdir(exist_ok=True)
        for name, text in suites.items():
            (suite / f"test_{name}.py").write_text(text)
        (suite / "pytest.ini").write_text(_CONFIGURATION)
        level = f"--module-isolation={reachable_level()}"
        where = f"--basetemp={self.folder}.temporary"
        done = self.pytest.run_in(self.folder, ["-q", "-rpfE", *_PLUGIN, *_NOT_NEEDED, level, where, *args, str(suite)])
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def warm_pytest(_warm_templates: WarmTemplates) -> Iterator[WarmPytest]:
    with WarmPytest(_IMPORTED, _warm_templates) as running:
        yield running


@pytest.fixture
def plugin(warm_pytest: WarmPytest, tmp_path: Path) -> Plugin:
    return Plugin(warm_pytest, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_reference_modules_do_in_a_sandbox_what_their_kind_does(plugin: Plugin) -> None:
    passed, kinds = {"tool-filesystem": 11, "loop-basic": 10}, {"tool-filesystem": "Tool", "loop-basic": "Orchestrator"}
    if IN_FULL:
        passed |= {"provider-mock": 9, "hooks-logging": 13, "context-simple": 15}
        kinds |= {"provider-mock": "Provider", "hooks-logging": "Hook", "context-simple": "Context"}
    places = {name: str(BuiltinSource().resolve(name).package_dir) for name in kinds}
    suites = {name: _suite_of(kind) + _ABOUT.format(module=places[name]) for name, kind in kinds.items()}
    code, printed = plugin.run(**suites)
    assert code == 0, printed
    assert {name: printed.count(f"PASSED suite/test_{name}.py") for name in passed} == passed, printed


def test_the_tests_fail_for_a_module_that_does_otherwise(trials: Trials, plugin: Plugin) -> None:
    code = """
        class Tool:
            name, description, input_schema = "x", "", {}

            def execute(self, input):
                return "no result"

        async def mount(coordinator, config=None):
            await coordinator.mount("tools", Tool(), name="x")
    """
    exit_code, printed = plugin.run(f"--module-path={trials.write('tool-x', code)}", tool=_suite_of("Tool"))
    assert exit_code == 1
    for name in ("test_tool_has_description", "test_execute_is_asynchronous", "test_structural_validation"):
        assert f"{name}" in printed, printed


def test_a_module_that_is_mounted_for_tests_gets_nowhere(trials: Trials, plugin: Plugin, tmp_path: Path) -> None:
    with attacked(tmp_path) as target:
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
        exit_code, printed = plugin.run(f"--module-path={trials.write('tool-x', code)}", suite=suite)
        assert exit_code == 0 and "1 passed" in printed, printed
        assert not target.was_hit


def test_a_module_that_is_not_there_is_an_error_that_names_it(plugin: Plugin, tmp_path: Path) -> None:
    suite = "def test_it(tool_module):\n    pass\n"
    code, printed = plugin.run(f"--module-path={tmp_path / 'nowhere'}", suite=suite)
    assert code == 1 and "nowhere`: no such file" in printed, printed


# Runs pytest over and over in one process: where it is started, and with what, come from its input.
_RUNS = """
import contextlib, io, json, os, sys
import pytest

told = []
for folder, args in json.load(sys.stdin):
    os.chdir(folder)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(["-q", *args])
    traces = sorted(name for name in os.listdir(sys.argv[1]) if name.startswith("ran-"))
    for name in traces:
        os.unlink(os.path.join(sys.argv[1], name))
    told.append([int(code), traces, said.getvalue()])
print(json.dumps(told))
"""


def test_nothing_in_the_modules_repository_is_run_by_pytest_itself(trials: Trials, tmp_path: Path) -> None:
    def leaving(name: str) -> str:
        return f"open({str(tmp_path / name)!r}, 'w').close()\ndef test_it():\n    pass\n"

    files = {"conftest.py": leaving("ran-conftest"), "tests/test_in.py": leaving("ran-test")}
    root = trials.write("tool-x", "", files, "[tool.pytest.ini_options]\nminversion = '1'\n")
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "test_out.py").write_text("def test_it():\n    pass\n")
    (beside / "test-link").symlink_to(root)
    named = (*_PLUGIN, f"--module-path={root}")
    beyond = [  # where pytest is started, with what, and what is said of it
        (tmp_path, [*named, str(root / "tests/test_in.py")], "the configuration"),
        (tmp_path, [*named, "--rootdir=.", "-c/dev/null", str(root / "tests/test_in.py::test_it")], "the test"),
        (tmp_path, [*_PLUGIN, "-c/dev/null", "--rootdir=.", str(root / "tests")], "the test"),
        (root, [*named, "../beside/test_out.py"], "the working directory"),
        (tmp_path, [*named, f"-c{root / 'pyproject.toml'}", "beside/test_out.py"], "the configuration"),
        (tmp_path, [*named, f"--rootdir={root}", "beside/test_out.py"], "the root directory"),
        (tmp_path, [*named, f"--confcutdir={root}", "beside/test_out.py"], "the folder for conftest files"),
        (beside, [*named, "."], "the folder of tests"),
        (tmp_path, [*named, "--pyargs", "tests.test_in"], "--pyargs"),
    ]
    without = ["-p", "no:cacheprovider", "--import-mode=importlib"]
    runs = [
        *((str(folder), args) for folder, args, _ in beyond),
        (str(tmp_path), [*named, "beside/test_out.py"]),
        (str(tmp_path), [*named, "."]),
        (str(tmp_path), [*without, str(root / "tests/test_in.py")]),
    ]
    done = subprocess.run(
        [sys.executable, "-c", _RUNS, str(tmp_path)],
        input=json.dumps(runs),
        env={**os.environ, "PYTHONPATH": _PATHS},
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=True,
    )
    *refused, outside, around, plain = json.loads(done.stdout.splitlines()[-1])
    for (_, args, what), (code, traces, said) in zip(beyond, refused, strict=True):
        assert (code, traces) == (4, []) and f"ERROR: {what}" in said, (args, said)
    for code, traces, said in (outside, around):
        assert (code, traces) == (0, []) and "1 passed" in said, said
    assert plain[:2] == [0, ["ran-conftest", "ran-test"]]
