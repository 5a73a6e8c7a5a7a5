"""Where the sessions of tasks run: in this process, or on a node of a cluster.

A place runs one attempt of a task in a session of its own, and answers with its result. It decides nothing about other
attempts: the ledger does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from paddock.batch.result import TaskResult
from paddock.batch.task import Task

Acted = Callable[[str, str], Awaitable[None]]
"""Awaited before the first call of a module that can act outside the task's folder; it gets the module and the tool.

It returns once the ledger holds the record, and raises `StaleAttemptError` if the attempt was given up meanwhile: then
the call must not happen.
"""


class PlaceLostError(Exception):
    """A place is gone, and nobody knows what became of the attempt that ran there."""


class NotBegunError(PlaceLostError):
    """A place is gone before an attempt began there."""


class StaleAttemptError(Exception):
    """An attempt was given up, and another one may run."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a task.

    Attributes:
        task: what is to be done.
        number: counted from 1.
        base: the folder that the paths in `task.files` are relative to.
    """

    task: Task
    number: int
    base: Path


class Place(Protocol):
    """Runs attempts, several at a time."""

    @property
    def name(self) -> str:
        """The name of the node, for results and people."""
        ...

    async def run(self, attempt: Attempt, folder: Path, acted: Acted) -> TaskResult:
        """Run an attempt to its end, and put the files that it changed into `folder`, which is empty, with its journal.

        What goes wrong inside the session is in the result.

        Raises:
            PlaceLostError: the place is gone; before the attempt began, as a `NotBegunError`.
            StaleAttemptError: the attempt was given up meanwhile.
        """
        ...


class Places(Protocol):
    """The places of a run. How many attempts there may be at once is theirs to say, as places come and go."""

    async def take(self) -> Place:
        """Wait until a place has room for one more attempt, and return it, for the first attempt as for any later one.

        Raises:
            KindError: there is none, and none has come for a minute.
        """
        ...

    def give_back(self, place: Place) -> None:
        """Take back the room that an attempt had, however it ended."""
        ...
