"""Runners of commands that stand in front of another, or of none: what may not run raises the reason at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from paddock_sources.commands.command_runner import CommandAccess, CommandRunner, CommandSession
from paddock_sources.errors import SourceError


@dataclass(frozen=True, slots=True)
class RefusingRunner:
    """Refuses to run anything, with a reason; that only matters where something has to be run."""

    why: Callable[[str], SourceError]

    def open(self, access: CommandAccess) -> AbstractContextManager[CommandSession]:
        """Raise the reason for this command."""
        raise self.why(access.name)


@dataclass(frozen=True, slots=True)
class UserHostsRunner:
    """Runs commands whose hosts the user named."""

    runner: CommandRunner

    def open(self, access: CommandAccess) -> AbstractContextManager[CommandSession]:
        """Open a session of the other runner, on the user's word."""
        return self.runner.open(replace(access, is_users_word=True))
