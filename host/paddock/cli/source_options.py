"""The options that say how modules' code may be come by, read into what a session takes."""

from __future__ import annotations

from dataclasses import dataclass

import click

from paddock.module_sources.resolve import SourceOptions
from paddock_sources.locked_sources import LockUse
from paddock_sources.progress import Progress


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """Which of these options were given."""

    offline: bool = False
    locked: bool = False
    frozen: bool = False
    dev: bool = False

    def read(self, progress: Progress) -> SourceOptions:
        """Return what they mean; `progress` is told of what takes time.

        Raises:
            click.UsageError: two of them contradict each other.
        """
        if self.locked and self.frozen:
            raise click.UsageError(
                "--locked wants the lock file to be up to date, --frozen takes it as it is: name one"
            )
        if self.dev and (self.locked or self.frozen):
            raise click.UsageError("--dev runs folders as they are, which no lock file can say")
        use = LockUse.FROZEN if self.frozen else LockUse.LOCKED if self.locked else LockUse.UPDATE
        return SourceOptions(use, offline=self.offline, live=self.dev, progress=progress)
