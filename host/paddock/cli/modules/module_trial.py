"""The common parts of commands that try out a module: their options, and how they start, report and end their work."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from paddock.audit import AuditLog
from paddock.authoring.provided import FetchOptions
from paddock.authoring.trial import TrialContext
from paddock.authorization.authorizer import Authorizer
from paddock.cli import failure, options, plan_options
from paddock.cli.command_group import Interrupted
from paddock.cli.terminal.confinement_notes import tell_confinements
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError, PlanError, PolicyRefusedError
from paddock.module_sources.provisioning import SourceOptions
from paddock.workers.output import OutputLine
from paddock_sandbox.profile import IsolationLevel

_Found = TypeVar("_Found")

_OPTIONS: Final = (
    options.LIMITS,
    options.ISOLATION,
    click.option(
        "--offline",
        is_flag=True,
        help="Fetch nothing: use the packages that were chosen the last time, or name what is lacking.",
    ),
)

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://|git\+|builtin:")


class _ModulePath(click.Path):
    """A path of this machine; the address of a module's code somewhere else is refused as such, as it was written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and _ADDRESS.match(value):
            self.fail(f"`{value}` is an address, and this takes a folder: clone or copy the module, then name that.")
        return super().convert(value, param, ctx)


PATH: Final = click.argument("path", type=_ModulePath(path_type=Path))


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """The options that these commands share, and the module's `config` and variables, which some take."""

    limits: Mapping[str, object]
    isolation: IsolationLevel | None = None
    offline: bool = False
    config: Mapping[str, object] = field(default_factory=dict)
    env: Sequence[str] = ()


def trial_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add these options, which `command` gets as `trial`; an option that is not understood is a usage error."""

    @wraps(command)
    def with_options(
        *,
        limits: Sequence[str],
        isolation: IsolationLevel | None,
        offline: bool,
        **others: Any,
    ) -> int:
        return command(trial=TrialOptions(plan_options.read_limits(limits), isolation, offline), **others)

    return options.added(_OPTIONS, with_options)


def run_trials(
    work: Callable[[TrialContext], Coroutine[Any, Any, _Found]],
    trial: TrialOptions,
    screen: Screen,
    activity: str,
    on_line: Callable[[OutputLine], None] | None,
) -> _Found:
    """Return the result of `work`.

    Raises:
        Interrupted: a person or a signal ended it.
        PaddockError: `work` raised it; the message names options where they are wrong.
    """
    fetching = FetchProgress(screen)

    async def in_trial_context() -> _Found:
        environ = dict(os.environ)
        audit = AuditLog(str(uuid.uuid4()), environ=environ)
        sources = SourceOptions(
            offline=trial.offline,
            progress=fetching,
            no_fetching=options.no_fetching(),
        )
        fetch_options = FetchOptions(environ, sources, audit)
        # Relative paths are not supported here: nothing in the user's folders is granted.
        authorizer = await Authorizer.at_work(Path("/"), environ, None)
        audit.obey(*authorizer.policy.audit)
        on_confined = partial(tell_confinements, screen)
        return await work(
            TrialContext(
                authorizer,
                fetch_options,
                trial.limits,
                trial.isolation,
                on_line,
                on_confined,
                config=trial.config,
                env=trial.env,
            )
        )

    with ExitStack() as stack:
        stack.enter_context(LogLines(screen))
        stack.enter_context(fetching)
        try:
            return asyncio.run(interruptible(in_trial_context, screen, lambda: activity))
        except KeyboardInterrupt:
            raise Interrupted from None
        except (PlanError, PolicyRefusedError) as error:
            plan_options.retell(error)
            raise


def tell_failure(screen: Screen, error: PaddockError) -> int:
    """Report a failure to a person, and return the exit code."""
    screen.text(failure.text(error))
    return failure.exit_code(error)
