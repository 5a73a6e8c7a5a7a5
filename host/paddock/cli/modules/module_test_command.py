"""Run a module's tests, and print pytest's output, one line at a time, without anything that acts on a terminal.

Exit codes: 0 all passed; 1 one failed, there was none, or they could not be run; 5 they died or exceeded their time.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import anyio
import click

from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.suite import SuiteOutcome, run_own_tests
from paddock.authoring.trial import TrialContext
from paddock.cli.command_group import example
from paddock.cli.modules.module_shell_command import fetched, run_plainly
from paddock.cli.modules.module_trial import PATH, TrialOptions, run_trials, tell_failure, trial_options
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.text import escape
from paddock.workers.output import OutputLine
from paddock_sdk.worker.trial import QUIET


class _PassingOn(click.Command):
    """A command that explains where options for pytest go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse them; an unknown option may have been meant for pytest."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = f"one for pytest comes behind `--`, as in `-- {error.option_name}`"
            raise click.UsageError(f"{error.format_message()} ({hint})", ctx) from error


_DEBUGGERS = ("--pdb", "--trace")  # also `--pdbcls`


@click.command(cls=_PassingOn, epilog=example("paddock module test . -- -k counted"))
@PATH
@click.argument("pytest_args", nargs=-1, metavar="[-- PYTEST_ARGS]...")
@trial_options
def test(path: Path, pytest_args: tuple[str, ...], trial: TrialOptions) -> int:
    """Run the tests of the module at PATH with pytest, on a copy of it in a sandbox.

    Tests can import what the module depends on, what its developers install (its extras or dependency groups `dev`
    and `test`), pytest and pytest-asyncio. They reach no network, and write only to the sandbox's private folder.
    Exits with 0 if all tests pass, with 1 if one fails or there is none, with 5 if they died or did not end in
    time.
    """
    screen = Screen(sys.stderr)
    if any(one.startswith(_DEBUGGERS) for one in pytest_args):
        return _debug(path, pytest_args, trial, screen)

    output = _Output(screen)

    async def work(trial_context: TrialContext) -> SuiteOutcome:
        return await output.while_taken(run_own_tests(trial_context, ModuleFolder.at(path), pytest_args))

    try:
        outcome = run_trials(work, trial, screen, f"running the tests of {path}", output.write)
    except PaddockError as error:
        return tell_failure(screen, error)
    if outcome.is_empty:
        screen.text(
            "error: there are no tests to run\n\n"
            "hint: write one, as in `tests/test_tool.py` of what `paddock module new` writes\n"
            f"hint: {escape(f'`paddock module validate {shlex.quote(str(path))} -b`')} runs those of its kind"
        )
    return 0 if outcome.passed else 1


class _Output:
    """The lines of the tests on the command's own streams; the tests end as soon as stdout takes no more of them."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._refusal: OSError | None = None
        self._scope: anyio.CancelScope | None = None

    def write(self, line: OutputLine) -> None:
        """Write one line. It never raises: the loop itself calls it."""
        if self._refusal is not None:
            return
        self._screen.hide_status()
        try:
            click.echo(escape(line.text, multiline=True), err=line.stream == "stderr")
        except OSError as error:
            self._refusal = error
            if self._scope is not None:
                self._scope.cancel()

    async def while_taken(self, work: Coroutine[Any, Any, SuiteOutcome]) -> SuiteOutcome:
        """Return the result of `work`.

        Raises:
            OSError: stdout took no more; `work` was cancelled.
        """
        outcome = None
        with anyio.CancelScope() as self._scope:
            outcome = await work
        if self._refusal is not None:
            raise self._refusal
        assert outcome is not None  # nothing else cancels the scope
        return outcome


def _debug(path: Path, pytest_args: tuple[str, ...], trial: TrialOptions, screen: Screen) -> int:
    """Run the tests in a plain process, where a debugger has the terminal, if the sandbox was given up by name."""
    if trial.isolation != "none":
        again = shlex.join(["paddock", "module", "test", str(path), "--isolation", "none", "--", *pytest_args])
        raise click.UsageError(
            "a debugger needs the terminal, which no sandbox has; for code of your own, run the tests in a plain "
            f"process with your rights: {again}"
        )
    try:
        folder = ModuleFolder.at(path)
        variables = fetched(screen, folder, trial).variables
    except PaddockError as error:
        return tell_failure(screen, error)
    screen.note("the tests run in a plain process, without a sandbox")
    command = (sys.executable, "-m", "pytest", *QUIET, *pytest_args)
    return min(run_plainly(screen, command, variables, folder.root), 1)
