"""The commands for authors of modules: new, validate, test, shell."""

from __future__ import annotations

import click

from paddock.cli.command_group import CommandGroup, LazyCommand, example

_COMMANDS = {
    "new": "Write the project of a new module, with a small example, to a new folder.",
    "validate": "Check that the module at PATH keeps to the contract of its kind.",
    "shell": "Start a shell, or COMMAND, that can import the module at PATH and `amplifier_core`.",
    "test": "Run the tests of the module at PATH with pytest, on a copy of it in a sandbox.",
}


@click.group(
    cls=CommandGroup,
    commands=[
        LazyCommand(name, f"{__name__}.module_{name}_command:{name}", brief) for name, brief in _COMMANDS.items()
    ],
    epilog=example("paddock module new tool word-count"),
)
def module() -> None:
    """Write modules: start a project, validate it, run its tests, open a shell for it.

    The module's code runs in a sandbox, except in `shell`.
    """
