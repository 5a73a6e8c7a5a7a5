"""Run a module's tests, and pass on what pytest prints, a line at a time, with nothing in it that acts on a terminal.

Exit codes: 0 all passed; 1 one failed, there was none, or they could not be run; 5 they died or overstayed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.suite import SuiteOutcome, run_own_tests
from paddock.authoring.trial import TrialContext
from paddock.cli.command_group import INTERRUPTED
from paddock.cli.modules.module_trial import Interrupted, TrialOptions, run_trials, tell_failure
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.text import escape
from paddock.workers.output import OutputLine


def run_test(path: Path, args: Sequence[str], options: TrialOptions) -> int:
    """Run the tests of the module at a path and return the exit code."""
    screen = Screen(sys.stderr)

    async def work(trial_context: TrialContext) -> SuiteOutcome:
        return await run_own_tests(trial_context, ModuleFolder.at(path), args)

    def on_line(line: OutputLine) -> None:
        screen.hide_status()
        click.echo(escape(line.text, multiline=True), err=line.stream == "stderr")

    try:
        outcome = run_trials(work, options, screen, f"running the tests of {path}", on_line)
    except Interrupted:
        return INTERRUPTED
    except PaddockError as error:
        return tell_failure(screen, error)
    if outcome.is_empty:
        screen.text("error: there are no tests to run")
    return 0 if outcome.passed else 1
