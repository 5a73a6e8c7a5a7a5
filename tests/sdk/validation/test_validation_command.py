"""The command `amplifier-core`: what it prints, to the character, and its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import amplifier_core
import pytest
from amplifier_core.cli import main
from click.testing import CliRunner

from paddock_sdk.validation import KINDS

from .module_source import RIGHT, module_at

_NOT_ASYNCHRONOUS = "`execute` has to be defined as `async def execute(input)`: that of Tool is not asynchronous"


def invoked(*arguments: str) -> tuple[str, int]:
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output, result.exit_code


def test_a_valid_module_is_printed_check_by_check(tmp_path: Path) -> None:
    package = module_at(tmp_path, RIGHT["orchestrator"])
    output, status = invoked("validate", "orchestrator", str(package))
    assert output.splitlines() == [
        f"Validating orchestrator module: {package}",
        "",
        "PASSED: 5/5 checks passed (0 errors, 0 warnings)",
        "",
        "  ✓ [info]    module_importable: `amplifier_module_probe` can be imported",
        "  ✓ [info]    mount_exists: `mount` is there and can be called",
        "  ✓ [info]    mount_signature: mount() is asynchronous and takes a coordinator and a configuration",
        "  ✓ [info]    protocol_compliance: mount() mounted an Orchestrator, which implements Orchestrator interface",
        "  ✓ [info]    orchestrator_execute: `execute` is asynchronous and takes what it is called with",
    ]
    assert status == 0


def test_a_module_that_is_wrong_is_printed_with_what_is_wrong(tmp_path: Path) -> None:
    source = RIGHT["tool"].replace("async def execute", "def execute").replace('"Probes."', '""')
    package = module_at(tmp_path, source)
    output, status = invoked("validate", "tool", str(package))
    assert output.splitlines()[2:] == [
        "FAILED: 6/8 checks passed (1 errors, 1 warnings)",
        "",
        "  ✓ [info]    module_importable: `amplifier_module_probe` can be imported",
        "  ✓ [info]    mount_exists: `mount` is there and can be called",
        "  ✓ [info]    mount_signature: mount() is asynchronous and takes a coordinator and a configuration",
        "  ✓ [info]    protocol_compliance: mount() mounted a Tool, which implements Tool interface",
        "  ✓ [info]    tool_name: `name` is probe",
        "  ✗ [warning] tool_description: models read the `description`; it has to be a text, not ''",
        "  ✓ [info]    tool_input_schema: `input_schema` is a dict, or not there",
        f"  ✗ [error]   tool_execute: {_NOT_ASYNCHRONOUS}",
    ]
    assert status == 1


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_the_quiet_command_prints_the_summary_alone(flag: str, tmp_path: Path) -> None:
    package = module_at(tmp_path, RIGHT["hook"])
    assert invoked("validate", flag, "hook", str(package)) == ("PASSED: 4/4 checks passed (0 errors, 0 warnings)\n", 0)
    summary, status = invoked("validate", flag, "hook", str(tmp_path))
    assert (summary, status) == ("FAILED: 0/1 checks passed (1 errors, 0 warnings)\n", 1)


@pytest.mark.parametrize("flag", ["-e", "--entry-point"])
def test_an_entry_point_may_be_named(flag: str, tmp_path: Path) -> None:
    package = module_at(tmp_path, RIGHT["tool"].replace("def mount", "def install"))
    assert invoked("validate", "-q", "tool", str(package))[1] == 1
    assert invoked("validate", "-q", flag, "install", "tool", str(package))[1] == 0


def test_the_types_are_listed_one_a_line() -> None:
    assert invoked("list-types") == ("\n".join(KINDS) + "\n", 0)
    assert sorted(KINDS) == ["context", "hook", "orchestrator", "provider", "tool"]


def test_a_type_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    output, status = invoked("validate", "resolver", str(tmp_path))
    assert status == 2 and "orchestrator" in output


def test_the_version_is_that_of_the_command() -> None:
    assert invoked("--version") == ("amplifier-core, version 1.0.0\n", 0)


def test_the_command_runs_as_a_program_of_its_own(tmp_path: Path) -> None:
    package = module_at(tmp_path, RIGHT["tool"])
    stand_in = Path(amplifier_core.__file__).parents[1]
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-m", "amplifier_core.cli", "validate", "-q", "tool", str(package)],
        env={"PYTHONPATH": f"{stand_in}:{stand_in.parents[1]}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (answer.stdout, answer.stderr, answer.returncode) == (
        "PASSED: 8/8 checks passed (0 errors, 0 warnings)\n",
        "",
        0,
    )
