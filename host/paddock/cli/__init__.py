"""The command line: its entry point, and the common end of every command.

`main` ends the process with one of the documented exit codes: a command's own, 2 for a call that is not understood, 130
for an interruption, 3 for an internal error, which is reported in a form that can be pasted into a report. A command is
loaded when it runs, so the list of commands appears at once; the version takes not even the reading of arguments.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Sequence

from paddock import __version__
from paddock.cli.standard_files import OutputRefusedError, open_standard_files
from paddock_sdk.pydantic_plugins import disable_plugins

__all__ = ["main"]

_OPEN_FILES = 4096  # for some forty sessions of ten modules
_ALLOCATIONS = 50_000  # between two collections; with garbage of all of them, some megabytes more


def main(args: Sequence[str] | None = None) -> None:
    """Run the command in `args`, by default the arguments of the process, and exit."""
    # While it loads, a command makes objects by the ten thousand, which all stay: to look for garbage among them again
    # and again takes a tenth of the time that a short command takes. `CommandGroup` turns the collector on once the
    # command is loaded.
    gc.disable()
    gc.set_threshold(_ALLOCATIONS)
    _forget_odd_sizes()
    disable_plugins()
    output = open_standard_files()
    given = sys.argv[1:] if args is None else list(args)
    _raise_open_files()
    try:
        if given in (["--version"], ["-V"]):
            sys.stdout.write(f"paddock {__version__}\n")
            code = 0
        else:
            code = _run(given)
        sys.stdout.flush()
    except (BrokenPipeError, OutputRefusedError):
        code = 1
        output.give_up()  # also of a reader that has left, of which no message is written
    if output.refusal is not None:
        sys.stderr.write(f"error: the output cannot be written to stdout: {output.refusal.strerror}\n")
        code = code or 1
    # The system frees all memory at once; the interpreter's last collection need not walk through it first.
    gc.freeze()
    sys.exit(code)


def _run(given: list[str]) -> int:
    """Run a command, report how it failed, and return the exit code."""
    import click

    from paddock.cli.command_group import INTERRUPTED, Interrupted
    from paddock.cli.commands import paddock

    try:
        code: int = paddock.main(args=given, prog_name="paddock", standalone_mode=False)
    except click.ClickException as error:
        from paddock.cli.failure import show_usage

        show_usage(error, given)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort, Interrupted) as error:
        click.echo(Interrupted.of(error).text, err=True)
        return INTERRUPTED
    except (BrokenPipeError, OutputRefusedError, SystemExit):
        raise
    except BaseException as error:  # a cancellation is no Exception, and a module can raise one
        from paddock.cli.failure import report_unforeseen

        return report_unforeseen(error, given)
    return code


def _forget_odd_sizes() -> None:
    """Remove a size of the terminal that is no number: `rich` takes `²` for one, and raises."""
    for name in ("COLUMNS", "LINES"):
        try:
            int(os.environ.get(name, "0"))
        except ValueError:
            del os.environ[name]


def _raise_open_files() -> None:
    """Allow this process more open files, as far as it may: a shell's usual limit is for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
