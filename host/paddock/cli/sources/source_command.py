"""The common parts of commands about sources: they run with a fetcher, report the result, and end.

stdout receives the requested output, or exactly one JSON object; everything else goes to stderr. Text of repositories
and servers is escaped, and credentials in addresses are not shown. An interruption leaves nothing running and nothing
half-done.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread
import click

from paddock.cli.answer import DONE, CommandAnswer, CommandReport
from paddock.cli.bundle_plan import PlanPath
from paddock.cli.failure import SourceFailedError, masked
from paddock.cli.options import no_fetching, working_dir
from paddock.cli.sources.results import plan_named, read_modules
from paddock.cli.terminal.dialogue import Dialogue, agrees
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.render import Screen
from paddock.policy.files.policy import Policy
from paddock_sources import SourceError
from paddock_sources.progress import Progress

if TYPE_CHECKING:
    from paddock.module_sources.provisioning import SourceOptions
    from paddock_sources.provisioner import Provisioner

REFUSED: Final = 4
PLAN: Final = click.argument("plan", required=False, type=PlanPath(path_type=Path))
WORKING_DIR: Final = working_dir("The folder of plan.yaml and paddock.lock; by default the current one.")
OFFLINE: Final = click.option(
    "--offline", is_flag=True, help="Use no network. Anything that is not in the cache is an error."
)

_AT_A_TIME: Final = 8  # requests about sources at the same time

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
_Given = ParamSpec("_Given")


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The collaborators of a command: the fetcher, the operator's policy, the screen, and the person to ask."""

    screen: Screen
    policy: Policy
    provider: Provisioner
    dialogue: Dialogue | None
    is_offline: bool

    @property
    def fetching(self) -> SourceOptions:
        """How bundles are got, without a word about it on the screen."""
        from paddock.module_sources.provisioning import SourceOptions

        return SourceOptions(offline=self.is_offline, no_fetching=no_fetching())

    async def call(self, act: Callable[_Given, _Found], *args: _Given.args, **named: _Given.kwargs) -> _Found:
        """Run a blocking call in a thread and return its result.

        Raises:
            SourceFailedError: it failed with an error about a source.
        """
        try:
            return await anyio.to_thread.run_sync(partial(act, *args, **named), abandon_on_cancel=True)
        except SourceError as error:
            raise SourceFailedError.of(error) from error

    async def side_by_side(
        self, items: Sequence[_Item], act: Callable[[_Item], _Found]
    ) -> list[tuple[_Item, _Found | SourceFailedError]]:
        """Return the items, each with the result of a blocking call, or with its error if that failed."""
        limiter = anyio.CapacityLimiter(_AT_A_TIME)
        found: dict[int, _Found | SourceFailedError] = {}

        async def one(index: int, item: _Item) -> None:
            try:
                found[index] = await anyio.to_thread.run_sync(
                    partial(act, item), abandon_on_cancel=True, limiter=limiter
                )
            except SourceError as error:
                found[index] = SourceFailedError.of(error)

        async with anyio.create_task_group() as calls:
            for index, item in enumerate(items):
                calls.start_soon(one, index, item)
        return [(item, found[index]) for index, item in enumerate(items)]

    @property
    def has_person(self) -> bool:
        """Whether a person can be asked."""
        return self.dialogue is not None and self.dialogue.has_person

    async def agrees(self, title: str, lines: Sequence[str], yes: str, no: str) -> bool | None:
        """Return whether the person agrees; None where no person can be asked. An empty answer is no."""
        return await agrees(self.dialogue, [title, *lines], yes, no)


@asynccontextmanager
async def open_provider(environ: Mapping[str, str], progress: Progress, *, offline: bool) -> AsyncIterator[Provisioner]:
    """Open a fetcher of code for the user who has `environ`; versions for a lock file are always chosen anew."""
    from paddock.isolation.commands.cancellation import check_cancelled
    from paddock.module_sources.provisioning import SourceOptions, provisioning
    from paddock_sources.cache.source_cache import SourceCache, place_of_user

    with SourceCache(place_of_user(environ), check=check_cancelled, recalls=False) as cache:
        options = SourceOptions(
            offline=offline,
            no_fetching=no_fetching(),
            progress=progress,
        )
        async with provisioning(environ, cache, options) as found:
            yield found


def run_source_command(
    work: Callable[[CommandContext], Awaitable[CommandAnswer]],
    *,
    offline: bool = False,
    asks: bool = False,
    as_json: bool,
    quiet: bool = False,
) -> int:
    """Do the work, report its result, and return the exit code; `asks` means that a person may be asked."""
    screen = Screen(sys.stderr, masked, is_quiet=quiet)
    dialogue = Dialogue.at(screen, sys.stdin) if asks and not as_json else None

    def run() -> CommandAnswer:
        return asyncio.run(with_provider(work, screen, dialogue, offline=offline))

    return CommandReport(screen, as_json, masked).answer(run, DONE)


async def have_bundles(context: CommandContext, plan: Path | None, working_dir: Path | None) -> None:
    """Have the bundles that a plan extends at hand; those that it names itself are fetched with the user's keys."""
    from paddock.module_sources.bundles import BundleOptions, pin_bundles  # for few plans

    named = plan_named(plan, working_dir)
    if named is not None:
        await pin_bundles(named, os.environ, BundleOptions(context.fetching, lends_keys=True))


def over_modules(act: Callable[..., Awaitable[CommandAnswer]], *, gets_bundles: bool = False) -> Callable[..., int]:
    """Return a command over the modules of a plan or lock file, which `act` gets after the context of the command.

    With `gets_bundles`, bundles that are missing are fetched, unless the command only checks.

    It takes the options above, `--json` and `-q`; `act` gets all others. A person may be asked where it has `--yes`.
    """

    @wraps(act)
    def command(
        *,
        plan: Path | None,
        working_dir: Path | None,
        as_json: bool,
        offline: bool = False,
        quiet: bool = False,
        **others: Any,
    ) -> int:
        async def work(context: CommandContext) -> CommandAnswer:
            if gets_bundles and not others.get("checks"):
                await have_bundles(context, plan, working_dir)
            return await act(context, await context.call(read_modules, plan, working_dir), **others)

        asks = not others.get("yes", True)
        return run_source_command(work, offline=offline, asks=asks, as_json=as_json, quiet=quiet)

    return command


async def with_provider(
    work: Callable[[CommandContext], Awaitable[_Found]],
    screen: Screen,
    dialogue: Dialogue | None = None,
    *,
    offline: bool = False,
) -> _Found:
    """Do work that needs a fetcher, and return its result; its own errors are raised as they are.

    Raises:
        Interrupted: a person or a signal ended it.
    """
    from paddock.cli.terminal.fetch_progress import FetchProgress

    async def provided() -> _Found:
        policy = Policy.load(os.environ)
        problem: Exception | None = None
        with FetchProgress(screen) as progress:
            async with open_provider(os.environ, progress, offline=offline) as provider:
                try:
                    return await work(CommandContext(screen, policy, provider, dialogue, offline))
                except Exception as error:  # reported as it is, and not as one of a group
                    problem = error
        assert problem is not None
        raise problem

    return await interruptible(provided, screen, on_stop=lambda: dialogue.end() if dialogue is not None else None)
