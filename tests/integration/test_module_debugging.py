"""An author's plain process: a debugger with a terminal, and the contract's package beside an installed Paddock."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.authoring.installed_wheels import TEST_RUNNERS, index_of
from integration.command_line import Terminal, paddock, reachable_level, redirected, without_reader

_README = Path(__file__).parents[2] / "README.md"
_TEST = """
from amplifier_module_tool_shout import Shout

async def test_stops():
    loud = Shout()
    breakpoint()
    result = await loud.execute({"text": "a"})
    assert result.output == "A!"
"""
_STRICT = """
[project]
name = "amplifier-module-tool-shout"
version = "1.0"
[tool.pytest.ini_options]
filterwarnings = ["error"]
asyncio_mode = "auto"
cache_dir = ".cache"
"""


@pytest.fixture(autouse=True)
def _index(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "module-cache"))
    with index_of(monkeypatch, *TEST_RUNNERS):
        yield


@pytest.fixture
def shout(tmp_path: Path) -> Path:
    """README's own module, with a test that stops at a breakpoint, and warnings that are errors."""
    found = re.search(r"```python module=(\S+)/__init__\.py\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    package = tmp_path / found[1]
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(found[2])
    (package.parent / "test_shout.py").write_text(_TEST)
    (package.parent / "pyproject.toml").write_text(_STRICT)
    return package.parent


@pytest.mark.exhaustive  # sdk/docs/testing-modules.md has a module behave so
def test_the_module_of_readme_behaves_as_every_tool_has_to(shout: Path) -> None:
    done = paddock("module", "validate", str(shout), "--behavioral")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_breakpoint_in_the_sandbox_is_passed_over_and_said(shout: Path) -> None:
    done = paddock("module", "test", str(shout))
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    assert "breakpoint() was passed over" in done.stderr and "--isolation none -- --pdb" in done.stderr
    assert "Warning" not in done.stdout + done.stderr


@pytest.mark.exhaustive
def test_a_breakpoint_of_a_called_tool_is_passed_over(shout: Path) -> None:
    code = shout / "amplifier_module_tool_shout" / "__init__.py"
    code.write_text(re.sub(r"(async def execute\(.*\n)", r"\1        breakpoint()\n", code.read_text()))
    for isolation in ("none", reachable_level()):
        done = paddock("call", str(shout), "shout", '{"text": "a"}', "--isolation", isolation)
        assert (done.returncode, done.stdout) == (0, "A!\n"), done.stderr
        assert "breakpoint() was passed over" in done.stderr and "Pdb" not in done.stderr
    code.write_text(code.read_text().replace("breakpoint()", "import pdb; pdb.set_trace()"))
    done = paddock("call", str(shout), "shout", '{"text": "a"}')
    assert (done.returncode, done.stdout) == (0, "A!\n"), done.stderr
    assert "pdb.set_trace() was passed over" in done.stderr and "BdbQuit" not in done.stderr
    code.write_text(f"{code.read_text()}\nbreakpoint()\n")  # when it is imported
    done = paddock("module", "validate", str(shout))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.exhaustive
def test_tests_end_once_their_output_is_refused(shout: Path, tmp_path: Path) -> None:
    (shout / "test_shout.py").write_text("def test_nothing(): pass")
    said = []
    for stdout in (os.open("/dev/full", os.O_WRONLY), without_reader()):
        with (tmp_path / "stderr").open("w+") as stderr, os.fdopen(stdout, "w"):
            assert redirected("module", "test", str(shout), stdout=stdout, stderr=stderr.fileno()) == 1
            stderr.seek(0)
            lines = stderr.read().splitlines()
        said.append([line for line in lines if line.startswith(("error", "warning", "Traceback"))])
    assert said == [["error: the output cannot be written to stdout: No space left on device"], []]


def test_a_debugger_has_the_terminal_in_a_plain_process_alone(shout: Path) -> None:
    refused = paddock("module", "test", str(shout), "--", "--pdb")
    assert refused.returncode == 2
    assert f"paddock module test {shout} --isolation none -- --pdb" in refused.stderr
    with Terminal("module", "test", str(shout), "--isolation", "none", "--", "--pdb") as terminal:
        terminal.until("without a sandbox")
        terminal.until("(Pdb)")
        terminal.type("print(loud.name * 2)\n")
        terminal.until("shoutshout")
        terminal.type("continue\n")
        terminal.until("1 passed")
        assert terminal.exit_code() == 0


@pytest.mark.exhaustive
def test_a_plain_program_imports_the_contract_and_the_module(shout: Path) -> None:
    # A type checker follows the import into a package that says that it is typed.
    code = (
        "import amplifier_core, amplifier_module_tool_shout as m; print(amplifier_core.ToolResult, m.__file__); "
        "import importlib.resources as r; print('typed:', (r.files('amplifier_core') / 'py.typed').is_file())"
    )
    done = paddock("module", "shell", str(shout), "--", "python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "ToolResult" in done.stdout and f"{shout}/amplifier_module_tool_shout/__init__.py" in done.stdout
    assert "typed: True" in done.stdout
    assert paddock("module", "shell", str(shout), "--", "python", "-c", "raise SystemExit(7)").returncode == 7
    done = paddock("module", "shell", str(shout), "--print")
    assert re.search(r"^export PYTHONPATH=", done.stdout, re.MULTILINE)
    assert paddock("module", "shell", str(shout), "--", "no-such-program").returncode == 127
    shown = {**os.environ, "OF_THE_USER": "1"}
    done = paddock("module", "shell", str(shout), "--", "env", environ=shown)
    variables = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert {name for name, value in variables.items() if shown.get(name) != value} <= {"PATH", "PYTHONPATH"}
    # The scripts of what was installed for it come before those around Paddock, as in a virtual environment.
    done = paddock("module", "shell", str(shout), "--", "sh", "-c", "command -v pytest; pytest --version")
    assert done.returncode == 0 and "/paddock-scripts-" in done.stdout and "pytest" in done.stdout, done.stdout


@pytest.mark.exhaustive
def test_a_type_checker_finds_the_contract_in_a_plain_process(shout: Path) -> None:
    # Imports are not followed, which takes a while: an untyped package would be an error all the same.
    checked = ["python", "-m", "mypy", "--follow-imports=skip", "--cache-dir=/dev/null", "amplifier_module_tool_shout"]
    done = paddock("module", "shell", str(shout), "--", *checked, cwd=shout)
    assert done.returncode == 0, done.stdout + done.stderr
