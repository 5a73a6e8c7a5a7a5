"""A runner that notes what is run, and can have something happen before or after a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from paddock_sources.commands.command_runner import CommandAccess, CommandResult, CommandRunner, CommandSession


class WatchedRunner:
    """Runs commands with `runner`; `reaches` are those that were opened, `commands` what was run in them.

    `opening` is called before a place for commands is made. `before` gets each git command (`fetch`, `ls-tree`)
    before it is run, and `after` when it has ended.
    """

    level = "none"

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
        self.reaches: list[CommandAccess] = []
        self.commands: list[Sequence[str]] = []
        self.opening: Callable[[], None] = lambda: None
        self.before: Callable[[str], None] = lambda command: None
        self.after: Callable[[str], None] = lambda command: None

    @property
    def verbs(self) -> list[str]:
        """What git was told to do, one after the other."""
        return [_verb(command) for command in self.commands]

    def forget(self) -> None:
        self.reaches.clear()
        self.commands.clear()

    @contextmanager
    def open(self, reach: CommandAccess) -> Iterator[CommandSession]:
        self.reaches.append(reach)
        self.opening()
        with self._runner.open(reach) as session:
            yield _WatchedSession(self, session)


class _WatchedSession(CommandSession):
    def __init__(self, watched: WatchedRunner, session: CommandSession) -> None:
        super().__init__("watched")
        self._watched = watched
        self._session = session

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        self._watched.commands.append(argv)
        self._watched.before(_verb(argv))
        finished = self._session.run(argv, **options)
        self._watched.after(_verb(argv))
        return finished


def _verb(argv: Sequence[str]) -> str:
    arguments = iter(argv[1:])
    for argument in arguments:
        if argument == "-c":
            next(arguments)
        elif not argument.startswith("-"):
            return argument
    raise AssertionError(f"git was told nothing: {argv}")
