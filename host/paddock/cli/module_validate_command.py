"""Validate a module, and write what was found out: a table for people, one object for scripts.

`-o json`: `{"module_type", "module_path", "passed", "checks": [{"name", "passed", "message", "severity"}]}`, with an
`error` beside it where there is no finding. Exit codes: 0; 1 it is not what hosts expect, or is not there; 5 it died.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Final

from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.module_name import Kind
from paddock.authoring.suite import SuiteOutcome, SuiteRunner
from paddock.authoring.validation import Validator
from paddock.errors import PaddockError
from paddock.process.output import OutputLine
from paddock_sdk.validation.result import ValidationCheck, ValidationResult

from . import INTERRUPTED, failure
from .json_output import print_json
from .module_trial import Booth, Interrupted, TrialOptions, run_trials, tell_failure
from .render import Screen

_BEHAVIOR: Final = "behavior_tests"
_MAX_LINES: Final = 500  # of what pytest prints over tests that fail


def run_validate(
    path: Path, kind: Kind | None, options: TrialOptions, *, as_json: bool, behavioral: bool, verbose: bool
) -> int:
    """Validate the module at a path, print the result and return the exit code."""
    screen = Screen(sys.stderr)
    seen: list[tuple[str, str]] = []
    printed: deque[str] = deque(maxlen=_MAX_LINES)

    async def work(booth: Booth) -> ValidationResult:
        folder = ModuleFolder.at(path)
        chosen = folder.kind(kind)
        seen.append((chosen, str(folder.package_dir)))
        parts = booth.clerk, booth.means, booth.conditions, booth.limits
        result = await Validator(*parts).validate(folder, chosen)
        printed.clear()
        if behavioral and result.passed:  # what cannot be mounted is not worth a page of failures
            result.add(_as_check(await SuiteRunner(*parts).run_behavior(folder, chosen)))
        return result

    def on_line(line: OutputLine) -> None:
        if verbose:
            screen.module_line(path.name or "module", line.text)
        else:
            printed.append(line.text)

    try:
        result = run_trials(work, options, screen, f"validating {path}", on_line if verbose or behavioral else None)
    except Interrupted:
        return _report_nothing(seen, as_json=as_json, error=failure.INTERRUPTION, code=INTERRUPTED)
    except PaddockError as error:
        code = tell_failure(screen, error)
        return _report_nothing(seen, as_json=as_json, error=failure.as_dict(error), code=code)
    if not result.passed:
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


def _report_nothing(seen: list[tuple[str, str]], *, as_json: bool, error: object, code: int) -> int:
    if as_json:
        kind, package = seen[0] if seen else (None, None)
        print_json({"module_type": kind, "module_path": package, "passed": False, "checks": [], "error": error})
    return code


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
