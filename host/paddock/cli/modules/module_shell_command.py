"""Start a shell or a program in which a module's code and the contract's package can be imported, without a sandbox."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.plain_process import PlainEnvironment, plain_environment, write_scripts
from paddock.authoring.trial import TrialContext
from paddock.cli.command_group import INTERRUPTED, example
from paddock.cli.modules.module_trial import PATH, TrialOptions, run_trials, tell_failure
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.text import escape

_NOT_FOUND = 127
_SHOWN = 10  # names of programs that were left out


@click.command(epilog=example("paddock module shell . -- mypy ."))
@PATH
@click.argument("command", nargs=-1, metavar="[-- COMMAND]...")
@click.option(
    "--print", "is_printed", is_flag=True, help="Print the environment variables, for an editor, and start nothing."
)
@click.option("--offline", is_flag=True, help="Fetch nothing: use the packages that were chosen the last time.")
def shell(path: Path, command: tuple[str, ...], is_printed: bool, offline: bool) -> int:
    """Start a shell, or COMMAND, that can import the module at PATH and `amplifier_core`.

    COMMAND runs with your rights and without a sandbox, so use it for your own code: for a debugger, a type checker
    or an editor. It can also import what the module depends on, what its developers install, and pytest. The programs
    of all these are on its PATH.
    """
    screen = Screen(sys.stderr)
    try:
        environment = fetched(screen, ModuleFolder.at(path), TrialOptions({}, offline=offline))
    except PaddockError as error:
        return tell_failure(screen, error)
    if is_printed:
        for name, value in environment.variables.items():
            click.echo(f"export {name}={shlex.quote(value)}")
        return 0
    if not command:
        command = (os.environ.get("SHELL", "/bin/sh"),)
        screen.note("a plain shell, without a sandbox; `exit` leaves it")
    with tempfile.TemporaryDirectory(prefix="paddock-scripts-") as scripts:
        left_out = write_scripts(Path(scripts), environment.libraries)
        if left_out:
            more = f" and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
            names = ", ".join(f"`{name}`" for name in left_out[:_SHOWN])
            screen.note(f"packages offer {names}{more}: left out, since your own programs have these names")
        search = os.pathsep.join((scripts, environment.variables["PATH"]))
        return run_plainly(screen, command, {**environment.variables, "PATH": search})


def fetched(screen: Screen, folder: ModuleFolder, trial: TrialOptions) -> PlainEnvironment:
    """Return the environment for a plain process over a module; raises as `run_trials` does."""

    async def work(trial_context: TrialContext) -> PlainEnvironment:
        return await plain_environment(trial_context, folder)

    return run_trials(work, trial, screen, f"fetching what {folder.module_id} needs", None)


def run_plainly(screen: Screen, command: tuple[str, ...], variables: Mapping[str, str], cwd: Path | None = None) -> int:
    """Run a program with the command's own streams to its end, and return its exit code."""
    environ = {**os.environ, **variables}
    program = shutil.which(command[0], path=environ["PATH"])
    if program is None:
        screen.text(f"error: there is no program {escape(shlex.quote(command[0]))}")
        return _NOT_FOUND
    try:
        done = subprocess.run([program, *command[1:]], env=environ, cwd=cwd, check=False)  # noqa: S603 - the user's own
        return done.returncode
    except KeyboardInterrupt:
        return INTERRUPTED
