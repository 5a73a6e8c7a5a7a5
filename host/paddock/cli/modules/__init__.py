"""The commands for authors of modules: new, validate, test."""

from __future__ import annotations

import click

from paddock.cli.command_group import CommandGroup, LazyCommand

_COMMANDS = (
    LazyCommand(
        "new",
        "paddock.cli.modules.module_new_command:new",
        "Write the project of a new module, with a small example in it, to a folder of its own.",
    ),
    LazyCommand(
        "validate",
        "paddock.cli.modules.module_validate_command:validate",
        "Check that the module at PATH, its repository or its package, keeps to the contract of its kind.",
    ),
    LazyCommand(
        "shell",
        "paddock.cli.modules.module_shell_command:shell",
        "Start COMMAND, by default your shell, where `amplifier_core` and the module at PATH can be imported.",
    ),
    LazyCommand(
        "test",
        "paddock.cli.modules.module_test_command:test",
        "Run the tests of the module at PATH with pytest, over a copy of it in a sandbox.",
    ),
)


@click.group(cls=CommandGroup, commands=_COMMANDS)
def module() -> None:
    """Write modules: start a project, validate it, run its tests.

    The module's code runs in a sandbox, except in `shell`.
    """
