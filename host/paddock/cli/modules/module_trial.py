"""What the commands that try a module out share: their options, and how their work is begun, told of and ended."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio

from paddock.audit import AuditLog
from paddock.authoring.provided import FetchOptions
from paddock.authoring.trial import TrialContext
from paddock.authorization.authorizer import Authorizer
from paddock.cli import failure, plan_options
from paddock.cli.terminal.confinement_notes import tell_confinements
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import Interruption
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.progress import ActivityLine
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError, PlanError, PolicyRefusedError
from paddock.workers.output import OutputLine
from paddock_sandbox.profile import IsolationLevel

_Found = TypeVar("_Found")


class Interrupted(Exception):
    """Raised when the person at the terminal has had enough."""


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """The options that these commands have in common."""

    limits: Mapping[str, object]
    isolation: IsolationLevel | None = None
    offline: bool = False

    @classmethod
    def of(cls, limits: Sequence[str], isolation: IsolationLevel | None, *, offline: bool) -> Self:
        """Return the options as they were written.

        Raises:
            UsageError: one is not understood.
        """
        return cls(plan_options.read_limits(limits), isolation, offline)


def run_trials(
    work: Callable[[TrialContext], Coroutine[Any, Any, _Found]],
    options: TrialOptions,
    screen: Screen,
    activity: str,
    on_line: Callable[[OutputLine], None] | None,
) -> _Found:
    """Return what `work` finds out.

    Raises:
        Interrupted: the person interrupted it.
        PaddockError: as `work` does; told of options where they are what is wrong.
    """
    fetching = FetchProgress(screen)

    async def in_trial_context() -> _Found | None:
        with (
            anyio.CancelScope() as scope,
            Interruption(screen.note, lambda: False, scope.cancel),
            ActivityLine(screen, lambda: activity),
        ):
            environ = dict(os.environ)
            audit = AuditLog(str(uuid.uuid4()), environ=environ)
            fetch_options = FetchOptions(environ, options.offline, fetching, audit)
            # Relative paths mean nothing here: nothing in a folder of the user's is granted.
            authorizer = await Authorizer.at_work(Path("/"), environ, None)
            on_confined = partial(tell_confinements, screen)
            return await work(
                TrialContext(authorizer, fetch_options, options.limits, options.isolation, on_line, on_confined)
            )
        return None

    with ExitStack() as stack:
        stack.enter_context(LogLines(screen))
        stack.enter_context(fetching)
        try:
            found = asyncio.run(in_trial_context())
        except KeyboardInterrupt:
            found = None
        except (PlanError, PolicyRefusedError) as error:
            plan_options.retell(error)
            raise
    if found is None:
        raise Interrupted
    return found


def tell_failure(screen: Screen, error: PaddockError) -> int:
    """Tell a person what went wrong, and return the exit code."""
    screen.text(failure.text(error))
    return failure.exit_code(error)
