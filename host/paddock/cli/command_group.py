"""Groups of commands, each loaded when it runs or shows its own help, and not for the version or a list of commands."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Self

import click

if TYPE_CHECKING:
    import signal

INTERRUPTED = 130
_WHOLE = 1000  # characters, more than any command's first sentence has
_OTHER_WORDS = {  # of which the most similar command does something else
    "continue": "chat --continue",
    "denials": "audit --event denial",
    "kill": "end",
    "resume": "chat --continue",
    "sessions resume": "chat --resume",
    "status": "ps",
    "stop": "end",
    "trace": "run --trace",
}


ForeseenWorkers = Callable[[Sequence[str]], Literal["modules", "programs"] | None]
"""Tells from a command's arguments whether it will start modules, or programs such as git, in workers."""


class Interrupted(Exception):
    """Raised when a person ended a command, or the signal `by` that no person typed; `text` says which, for people."""

    def __init__(self, by: signal.Signals | None = None) -> None:
        self.text = "interrupted" if by is None else f"ended by {by.name}"
        self._message = "interrupted by the person at the terminal" if by is None else self.text
        super().__init__(self.text)

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return `error` if it is one, else that a person ended the command."""
        return error if isinstance(error, cls) else cls()

    def as_dict(self) -> dict[str, object]:
        """Return it for scripts."""
        return {"type": "Interrupted", "message": self._message}


def example(line: str) -> str:
    """Return what a command's help ends with: a line that people can type."""
    return f"\b\nExample:\n  {line}"


class LazyCommand(click.Command):
    """Stands for a command in lists; `brief` is the first sentence of its help, `place` is `package.module:name`.

    `inside` are the names of its own commands, if it is a group. `workers` tells from its arguments which workers it
    will start, if any; their template starts before it is loaded.
    """

    def __init__(
        self,
        name: str,
        place: str,
        brief: str,
        *,
        inside: Collection[str] = (),
        workers: ForeseenWorkers = lambda args: None,
    ) -> None:
        super().__init__(name, short_help=brief)
        self.inside = inside
        self._place = place
        self._workers = workers

    def begin(self, context: click.Context, args: Sequence[str]) -> None:
        """Start what a command with these arguments will need: the template and the search for control groups.

        An unused template ends with `context`, and so does the search.
        """
        workers = None if {*context.help_option_names}.intersection(args) else self._workers(args)
        if workers is not None:
            # Only here: most commands start no workers.
            from paddock.workers.early_template import begun
            from paddock.workers.runtime import WorkerRuntime

            context.with_resource(begun(partial(WorkerRuntime.locate, for_commands=workers == "programs")))
            from paddock.workers.group_search import searching

            context.with_resource(searching())

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
        if self.get_command(ctx, args[0]) is None and (lines := self._meant_by(ctx, args[0])):
            meant = " or ".join(f"`{line}`" for line in lines)
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean {meant}?", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, LazyCommand):
            command.begin(ctx, rest)
            command = command.load()
            gc.freeze()  # none of what was loaded is garbage
            gc.enable()
        return name, command, rest

    def _meant_by(self, ctx: click.Context, word: str) -> list[str]:
        """Return the lines that do what a word of another tool says, or that have it as a command of a group.

        Nothing is loaded for that.
        """
        program, *group = ctx.command_path.split()
        if other := _OTHER_WORDS.get(" ".join([*group, word])):
            return [f"{program} {other}"]
        commands = sorted(self.commands.items())
        having = [name for name, one in commands if isinstance(one, LazyCommand) and word in one.inside]
        return [f"{ctx.command_path} {name} {word}" for name in having]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        rows = [(name, command.get_short_help_str(_WHOLE)) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
