"""Validate the modules in a folder, and print the findings: tables for people, one object for scripts.

`-o json`: `{"module_type", "module_path", "passed", "checks": [{"name", "passed", "message", "severity"}]}`, with an
`error` beside it where there is no finding. Of a folder with several modules: `{"module_path", "passed", "modules"}`,
where each of `modules` is such an object with the module's id as `module`. Exit codes: 0; 1 a module is not what hosts
expect, or is missing; 5 it died; of several the highest.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from paddock.authoring import validation
from paddock.authoring.module_folder import ModuleFolder, module_ids, path_error
from paddock.authoring.module_name import KINDS
from paddock.authoring.suite import run_behavior_tests
from paddock.authoring.trial import TrialContext
from paddock.authorization.suggestions.code_needs import ITS_OWN
from paddock.cli import failure, plan_options
from paddock.cli.command_group import INTERRUPTED, Interrupted, example
from paddock.cli.modules.module_trial import PATH, TrialOptions, run_trials, tell_failure, trial_options
from paddock.cli.options import this_command
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.plan.model import Kind
from paddock.plan.permissions import Permissions
from paddock.text import escape
from paddock.workers.output import OutputLine
from paddock_sdk.validation.result import ValidationCheck, ValidationResult
from paddock_sources.manifest.code_names import CodeNames

_MAX_LINES: Final = 500  # of pytest's output about failing tests
_MAX_NAMES: Final = 4  # of variables, in a command to paste
_ANY: Final = "test"  # the value of a setting; a module that is only mounted uses none
_MISSING: Final = re.compile(r"raised KeyError: '(\w{1,64})'")


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
@click.option("--config", metavar="JSON", default="{}", help="The configuration that it is mounted with.")
@click.option(
    "--allow-env",
    "env",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="An environment variable that it sees: your own, or one with this value; can be repeated.",
)
@click.option("-b", "--behavioral", is_flag=True, help="Also run the tests that every module of its kind must pass.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the module prints, also if it is valid.")
@trial_options
def validate(
    path: Path,
    kind: Kind | None,
    output: str,
    as_json: bool,
    config: str,
    env: tuple[str, ...],
    behavioral: bool,
    verbose: bool,
    trial: TrialOptions,
) -> int:
    """Check that the module at PATH keeps to the contract of its kind.

    PATH is the module's repository or its package; of a folder with several modules, all are checked. Paddock imports
    and mounts the module in a sandbox. It grants it nothing but the variables that you name, as a provider needs that
    wants a key: any text will do. Exits with 0 if the module is valid, with 1 if it is not, with 5
    if it died or did not end in time.
    """
    as_json = as_json or output == "json"
    screen = Screen(sys.stderr)
    given = Permissions.model_validate(plan_options.read_grants({"env": env}))
    trial = replace(trial, config=plan_options.read_object(config, "--config"), env=given.env)
    validating = _Validating(path, kind, behavioral, verbose, trial, screen)
    try:
        ids = module_ids(path)
        if kind is not None and len(ids) > 1:
            raise path_error(
                path, f"`--type` is of one module, and here are {', '.join(ids)}", hints=["name the package of one"]
            )
    except PaddockError as error:
        code = tell_failure(screen, error)
        if as_json:
            print_json(_Finding("", code, error=failure.as_dict(error)).as_dict())
        return code
    findings: list[_Finding] = []
    for module_id in ids:
        findings.append(validating.finding(module_id))
        if findings[-1].code == INTERRUPTED:
            break
        if not as_json and findings[-1].result is not None:
            _show(findings[-1], Screen(sys.stdout), is_one=len(ids) == 1)
    if as_json:
        several = {
            "module_path": str(path.resolve()),
            "passed": all(finding.code == 0 for finding in findings),
            "modules": [{"module": finding.module_id, **finding.as_dict()} for finding in findings],
        }
        print_json(findings[0].as_dict() if len(ids) == 1 else several)
    return max(finding.code for finding in findings)


@dataclass(frozen=True, slots=True)
class _Finding:
    """What was found out about a module: a result, or the error in its place; `code` is the exit code for it."""

    module_id: str
    code: int
    result: ValidationResult | None = None
    module: tuple[Kind, ModuleFolder] | None = None
    error: object = None

    def as_dict(self) -> dict[str, object]:
        kind, package = (None, None) if self.module is None else (self.module[0], str(self.module[1].package_dir))
        if self.result is None:
            nothing: dict[str, object] = {"module_type": kind, "module_path": package, "passed": False, "checks": []}
            return {**nothing, "error": self.error}
        return {
            "module_type": self.result.module_type,
            "module_path": self.result.module_path,
            "passed": self.result.passed,
            "checks": self.result.checks,
        }


@dataclass(frozen=True, slots=True)
class _Validating:
    """The options of the command, which hold for each module at `path`."""

    path: Path
    kind: Kind | None
    behavioral: bool
    verbose: bool
    trial: TrialOptions
    screen: Screen

    def finding(self, module_id: str) -> _Finding:
        """Return what a module is; a failure is reported."""
        module = None
        printed: deque[str] = deque(maxlen=_MAX_LINES)
        name = self.path.name or "module"

        def on_line(line: OutputLine) -> None:
            if self.verbose:
                self.screen.module_line(name, line.text)
            else:
                printed.append(line.text)

        try:
            folder = ModuleFolder.at(self.path, module_id)
            module = folder.kind(self.kind), folder
            work = partial(self._result, folder, module[0], printed)
            result = run_trials(work, self.trial, self.screen, f"validating {self.path}", on_line)
        except Interrupted as error:
            self.screen.ending(error.text)
            return _Finding(module_id, INTERRUPTED, module=module, error=error.as_dict())
        except PaddockError as error:
            code = tell_failure(self.screen, error)
            return _Finding(module_id, code, module=module, error=failure.as_dict(error))
        if not result.passed:  # a module that mounts nothing often says why in its log
            for line in printed:
                self.screen.module_line(name, line)
            for hint in self._hints(folder, result):
                self.screen.text(f"hint: {escape(hint)}")
        return _Finding(module_id, 0 if result.passed else 1, result, module)

    def _hints(self, folder: ModuleFolder, result: ValidationResult) -> Iterator[str]:
        """Yield the commands that give a module what it did not find when it was mounted, as far as its code says."""
        faults = [one.message for one in result.errors if one.name == "protocol_compliance"]
        missing = next((found[1] for fault in faults if (found := _MISSING.search(fault))), None)
        has = {one.partition("=")[0] for one in self.trial.env}
        reads = [one for one in CodeNames.of(folder.package_dir).variables if one not in has | ITS_OWN]
        if faults and missing not in (None, *reads):
            config = json.dumps({**self.trial.config, missing: _ANY})
            yield f"its configuration has no `{missing}`; give it one: {this_command('--config', config)}"
        elif faults and reads:
            values = [one if os.environ.get(one) else f"{one}={_ANY}" for one in reads[:_MAX_NAMES]]
            words = [word for value in values for word in ("--allow-env", value)]
            yield f"its code reads {', '.join(reads[:_MAX_NAMES])}; give it that: {this_command(*words)}"

    async def _result(
        self, folder: ModuleFolder, kind: Kind, printed: deque[str], trial_context: TrialContext
    ) -> ValidationResult:
        result = await validation.validate(trial_context, folder, kind)
        if not result.passed:
            return result  # a module that cannot be mounted does not need a page of failures
        printed.clear()
        if self.behavioral:
            has_passed = (await run_behavior_tests(trial_context, folder, kind)).passed
            message = "it behaves as every module of its kind has to"
            if not has_passed:
                message = "it does not behave as every module of its kind has to; what pytest printed says where"
            result.add(ValidationCheck("behavior_tests", has_passed, message, "info" if has_passed else "error"))
        return result


def _show(finding: _Finding, screen: Screen, *, is_one: bool) -> None:
    result = finding.result
    assert result is not None
    screen.title(f"Validation: {result.module_type}" + ("" if is_one else f" {finding.module_id}"))
    screen.text(result.summary())
    screen.table(("Check", "Status", "Message"), [(one.name, _status(one), one.message) for one in result.checks])


def _status(check: ValidationCheck) -> str:
    if check.severity == "warning":
        return "WARN"
    return "PASS" if check.passed else "FAIL"
