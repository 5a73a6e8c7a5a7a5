"""Validate a module, and print the findings: a table for people, one object for scripts.

`-o json`: `{"module_type", "module_path", "passed", "checks": [{"name", "passed", "message", "severity"}]}`, with an
`error` beside it where there is no finding. Exit codes: 0; 1 the module is not what hosts expect, or is missing; 5 it
died.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Final

import click

from paddock.authoring import validation
from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.module_name import KINDS
from paddock.authoring.suite import SuiteOutcome, run_behavior_tests
from paddock.authoring.trial import TrialContext
from paddock.cli import failure
from paddock.cli.command_group import INTERRUPTED, Interrupted, example
from paddock.cli.modules.module_trial import PATH, TrialOptions, run_trials, tell_failure, trial_options
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.plan.model import Kind
from paddock.workers.output import OutputLine
from paddock_sdk.validation.result import ValidationCheck, ValidationResult

_BEHAVIOR: Final = "behavior_tests"
_MAX_LINES: Final = 500  # of pytest's output about failing tests


@click.command(epilog=example("paddock module validate ./amplifier-module-tool-word-count"))
@PATH
@click.option(
    "-t",
    "--type",
    "kind",
    type=click.Choice(KINDS),
    help="The kind of the module; by default the one that the module declares.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="The form of the findings on stdout.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as `-o json`.")
@click.option("-b", "--behavioral", is_flag=True, help="Also run the tests that every module of its kind must pass.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the module prints, also if it is valid.")
@trial_options
def validate(
    path: Path,
    kind: Kind | None,
    output: str,
    as_json: bool,
    behavioral: bool,
    verbose: bool,
    trial: TrialOptions,
) -> int:
    """Check that the module at PATH keeps to the contract of its kind.

    PATH is the module's repository or its package. Paddock imports and mounts the module in a sandbox without grants.
    Exits with 0 if the module is valid, with 1 if it is not, with 5 if it died or did not end in time.
    """
    as_json = as_json or output == "json"
    screen = Screen(sys.stderr)
    try:
        folder = ModuleFolder.at(path)
        chosen = folder.kind(kind)
    except PaddockError as error:
        return _fail(screen, error, None, as_json=as_json)
    printed: deque[str] = deque(maxlen=_MAX_LINES)

    async def work(trial_context: TrialContext) -> ValidationResult:
        result = await validation.validate(trial_context, folder, chosen)
        if not result.passed:
            return result  # a module that cannot be mounted does not need a page of failures
        printed.clear()
        if behavioral:
            result.add(_as_check(await run_behavior_tests(trial_context, folder, chosen)))
        return result

    def on_line(line: OutputLine) -> None:
        if verbose:
            screen.module_line(path.name or "module", line.text)
        else:
            printed.append(line.text)

    try:
        result = run_trials(work, trial, screen, f"validating {path}", on_line)
    except Interrupted as error:
        if as_json:
            _print_nothing((chosen, folder), error.as_dict())
        screen.ending(error.text)
        return INTERRUPTED
    except PaddockError as error:
        return _fail(screen, error, (chosen, folder), as_json=as_json)
    if not result.passed:  # a module that mounts nothing often says why in its log
        for line in printed:
            screen.module_line(path.name or "module", line)
    if as_json:
        print_json(
            {
                "module_type": result.module_type,
                "module_path": result.module_path,
                "passed": result.passed,
                "checks": result.checks,
            }
        )
    else:
        _show(result, Screen(sys.stdout))
    return 0 if result.passed else 1


def _fail(screen: Screen, error: PaddockError, module: tuple[Kind, ModuleFolder] | None, *, as_json: bool) -> int:
    """Report an error in place of a finding, and return the exit code; `module` is the path to validate."""
    code = tell_failure(screen, error)
    if as_json:
        _print_nothing(module, failure.as_dict(error))
    return code


def _print_nothing(module: tuple[Kind, ModuleFolder] | None, error: object) -> None:
    kind, package = (None, None) if module is None else (module[0], str(module[1].package_dir))
    print_json({"module_type": kind, "module_path": package, "passed": False, "checks": [], "error": error})


def _as_check(outcome: SuiteOutcome) -> ValidationCheck:
    if outcome.passed:
        return ValidationCheck(_BEHAVIOR, True, "it behaves as every module of its kind has to", "info")
    message = "it does not behave as every module of its kind has to; what pytest printed says where"
    return ValidationCheck(_BEHAVIOR, False, message, "error")


def _show(result: ValidationResult, screen: Screen) -> None:
    screen.title(f"Validation: {result.module_type}")
    screen.text(result.summary())
    screen.table(("Check", "Status", "Message"), [(one.name, _status(one), one.message) for one in result.checks])


def _status(check: ValidationCheck) -> str:
    if check.severity == "warning":
        return "WARN"
    return "PASS" if check.passed else "FAIL"
