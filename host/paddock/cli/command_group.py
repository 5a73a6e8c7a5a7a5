"""Groups of commands, each loaded when it runs or shows its own help, and not for the version or a list of commands."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from importlib import import_module

import click

INTERRUPTED = 130
_WHOLE = 1000  # characters, more than any command's first sentence has


def example(line: str) -> str:
    """Return what a command's help ends with: a line that people can type."""
    return f"\b\nExample:\n  {line}"


class LazyCommand(click.Command):
    """Stands for a command in lists; `brief` is the first sentence of its help, `place` is `package.module:name`.

    A command that `starts_modules` has their template start before it is loaded itself.
    """

    def __init__(self, name: str, place: str, brief: str, *, starts_modules: bool = False) -> None:
        super().__init__(name, short_help=brief)
        self._place = place
        self._starts_modules = starts_modules

    def begin(self, context: click.Context, args: Sequence[str]) -> None:
        """Start for a command with these arguments, until the end of `context`, what it will wait for."""
        if self._starts_modules and not {*context.help_option_names}.intersection(args):
            # Only here: most commands start no modules.
            from paddock.workers.early_template import begun
            from paddock.workers.runtime import WorkerRuntime

            context.with_resource(begun(WorkerRuntime.locate))

    def load(self) -> click.Command:
        """Return the command itself."""
        module, _, name = self._place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


class CommandGroup(click.Group):
    """A group whose help shows the first sentence of each of its commands as a whole, on several lines if need be."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command that is meant, the command, loaded, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, LazyCommand):
            command.begin(ctx, rest)
            command = command.load()
            gc.freeze()  # none of what was loaded is garbage
            gc.enable()
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        rows = [(name, command.get_short_help_str(_WHOLE)) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
