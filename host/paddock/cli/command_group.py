"""What all commands have before any is loaded: their groups, and the exit code of an interruption."""

from __future__ import annotations

import click

INTERRUPTED = 130
_WHOLE = 1000  # characters, more than any command's first sentence has


class CommandGroup(click.Group):
    """A group whose help shows the first sentence of each of its commands as a whole, on several lines if need be."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, command.get_short_help_str(_WHOLE)) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
