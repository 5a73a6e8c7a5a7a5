"""The common parts of commands about sources: they run with a fetcher, report the result, and end.

stdout receives the requested output, or exactly one JSON object; everything else goes to stderr. Text of repositories
and servers is escaped, and credentials in addresses are not shown. An interruption leaves nothing running and nothing
half-done.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import click

from paddock.cli import failure
from paddock.cli.command_group import INTERRUPTED, Interrupted
from paddock.cli.failure import SourceFailedError
from paddock.cli.options import no_fetching
from paddock.cli.sources.addresses import masked
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.interruption import Interruption
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.question import Option, Question
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.standard_streams import reporting
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock.plan import USUAL_PLAN
from paddock.policy.files.policy import Policy
from paddock.text import escape
from paddock_sources import SourceError
from paddock_sources.lock.lock_file import LockedModule
from paddock_sources.progress import Progress

if TYPE_CHECKING:
    from paddock_sources.provisioner import Provisioner

REFUSED: Final = 4
PLAN: Final = click.argument("plan", required=False, type=click.Path(path_type=Path))
WORKING_DIR: Final = click.option(
    "-C",
    "working_dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of plan.yaml and paddock.lock; by default the current one.",
)
OFFLINE: Final = click.option(
    "--offline", is_flag=True, help="Use no network. Anything that is not in the cache is an error."
)

_AT_A_TIME: Final = 8  # requests about sources at the same time
_DIGITS: Final = 12  # of a commit or digest; enough to distinguish two by eye

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The result of a command: its exit code, the object for scripts, and the text on stdout for people."""

    code: int
    facts: Mapping[str, object]
    show: Callable[[Screen], None] = field(default=lambda screen: None)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The collaborators of a command: the fetcher, the operator's policy, the screen, and the person to ask."""

    screen: Screen
    policy: Policy
    provider: Provisioner
    dialogue: Dialogue | None

    async def call(self, act: Callable[[], _Found]) -> _Found:
        """Run a blocking call in a thread and return its result.

        Raises:
            SourceFailedError: it failed with an error about a source.
        """
        try:
            return await anyio.to_thread.run_sync(act, abandon_on_cancel=True)
        except SourceError as error:
            raise SourceFailedError.of(error) from error

    async def side_by_side(
        self, items: Sequence[_Item], act: Callable[[_Item], _Found]
    ) -> list[_Found | SourceFailedError]:
        """Return the results of blocking calls, or the error of each that failed, in the order of the items."""
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
        return [found[index] for index in range(len(items))]

    async def agrees(self, title: str, lines: Sequence[str], yes: str, no: str) -> bool | None:
        """Return whether the person agrees; None where no person can be asked. An empty answer is no."""
        if self.dialogue is None or not self.dialogue.has_person:
            return None
        question = Question(
            title="Paddock asks, not a module",
            text="\n".join(map(escape, [title, *lines])),  # a repository's text cannot imitate another row
            options=(Option("yes", yes), Option("no ", no)),
            prompts=lambda count: ("type yes or no, and Enter [no]:", "yes or no [no]:"),
            is_ours=True,
        )
        words = {"yes": True, "y": True, "no": False, "n": False, "": False}
        answer = await self.dialogue.ask(question, lambda line, _: words.get(line.casefold()))
        await anyio.lowlevel.checkpoint()  # an interrupted person has given no answer
        return bool(answer)


@asynccontextmanager
async def open_provider(environ: Mapping[str, str], progress: Progress, *, offline: bool) -> AsyncIterator[Provisioner]:
    """Open a fetcher of code for the user who has `environ`."""
    from paddock.module_sources.provisioning import provisioning

    async with provisioning(environ, offline=offline, no_fetching=no_fetching(), progress=progress) as provisioner:
        yield provisioner


def run_source_command(
    work: Callable[[CommandContext], Awaitable[CommandOutcome]],
    *,
    offline: bool = False,
    asks: bool = False,
    as_json: bool,
    quiet: bool = False,
) -> int:
    """Do the work, report its result, and return the exit code; `asks` means that a person may be asked."""
    screen = Screen(sys.stderr, masked, is_quiet=quiet)
    dialogue = Dialogue.at(screen, sys.stdin) if asks and not as_json else None
    try:
        outcome = asyncio.run(with_provider(work, screen, dialogue, offline=offline))
    except KeyboardInterrupt:
        return _interrupted(Interrupted(), screen, as_json=as_json)
    except Interrupted as error:
        return _interrupted(error, screen, as_json=as_json)
    except (click.ClickException, SystemExit):
        raise
    except BaseException as caught:  # the top of a command: an unforeseen error is reported here
        return _failed(caught, screen, as_json=as_json)
    with reporting(screen, "the command has done its work") if outcome.code == 0 else nullcontext():
        if as_json:
            print_json({**outcome.facts, "error": None}, masked)
        else:
            outcome.show(Screen(sys.stdout, masked))
    return outcome.code


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

    def stop() -> None:
        if dialogue is not None:
            dialogue.end()
        scope.cancel()

    with (
        anyio.CancelScope() as scope,
        Interruption(screen.note, lambda: False, stop) as interruption,
    ):
        return await _with_provider(work, screen, dialogue, offline=offline)
    raise interruption.end


async def _with_provider(
    work: Callable[[CommandContext], Awaitable[_Found]], screen: Screen, dialogue: Dialogue | None, *, offline: bool
) -> _Found:
    from paddock.cli.terminal.fetch_progress import FetchProgress

    policy = Policy.load(os.environ)
    problem: Exception | None = None
    with FetchProgress(screen) as progress:
        opened: AbstractAsyncContextManager[Provisioner] = open_provider(os.environ, progress, offline=offline)
        async with opened as provider:
            try:
                return await work(CommandContext(screen, policy, provider, dialogue))
            except Exception as error:  # reported as it is, and not as one of a group
                problem = error
    assert problem is not None
    raise problem


def _interrupted(error: Interrupted, screen: Screen, *, as_json: bool) -> int:
    if as_json:
        print_json({"error": error.as_dict()})
    screen.ending(error.text)
    return INTERRUPTED


def _failed(caught: BaseException, screen: Screen, *, as_json: bool) -> int:
    error = failure.as_exception(caught)
    if isinstance(error, SourceError):
        error = SourceFailedError.of(error)
    screen.text(failure.text(error))
    if as_json:
        print_json({"error": failure.as_dict(error)}, masked)
    return failure.exit_code(error)


# -- reading -------------------------------------------------------------------------------


def read_modules(plan: Path | None, working_dir: Path | None) -> SourcedModules:
    """Return the modules of PLAN, of `plan.yaml` in the folder if it exists, or of the folder's lock file.

    Raises:
        PlanError: the plan has problems.
        PolicyFileError: the user's settings of sources cannot be trusted or understood.
        SourceError: the lock file cannot be trusted or understood.
    """
    folder = working_dir or Path.cwd()
    usual = folder / USUAL_PLAN
    return SourcedModules.read(plan if plan is not None else usual if usual.is_file() else None, folder, os.environ)


# -- display -------------------------------------------------------------------------------


def command_text(name: str, sources: SourcedModules) -> str:
    """Return the command that does something for these modules, with their plan if it is not the usual one here.

    It is escaped: a plan's path is text that others may choose.
    """
    plan = plan_to_name(sources)
    return f"`paddock {name}`" if plan is None else f"`paddock {name} {escape(shlex.quote(str(plan)))}`"


def plan_to_name(sources: SourcedModules) -> Path | None:
    """Return the plan that a command about these modules has to name; None where it takes the usual one here."""
    plan = sources.plan.origin if sources.plan is not None else None
    return None if plan is None or plan == Path.cwd() / USUAL_PLAN else Path(plan)


def short(commit: str) -> str:
    """Return enough of a commit or a digest to recognise it."""
    return commit.removeprefix("sha256:")[:_DIGITS]


def pin_text(locked: LockedModule) -> str:
    """Return the pin of a module, in the words that people use."""
    if not (locked.tree or locked.commit):
        count = len(locked.dependencies)  # for a shipped module, only these are locked
        return f"{count} package{'s' * (count != 1)}"
    return short(locked.commit) if locked.tree and locked.commit else locked.commit or f"tree {short(locked.tree)}"


def date_text(moment: datetime | None) -> str:
    """Return the day of a commit, as the commit itself claims."""
    return f"{moment:%Y-%m-%d}" if moment is not None else "no date"


def iso_text(moment: datetime | None) -> str | None:
    """Return a moment for scripts."""
    return moment.isoformat() if moment is not None else None


def locked_facts(locked: LockedModule | None) -> dict[str, object] | None:
    """Return the locked facts for scripts."""
    if locked is None:
        return None
    return {
        "requested_ref": locked.requested_ref or None,
        "requested_kind": locked.requested_kind or None,
        "commit": locked.commit or None,
        "committed_at": iso_text(locked.committed_at),
        "tree": locked.tree or None,
        "subdirectory": locked.subdirectory or None,
        "dependencies": [{"name": one.name, "version": one.version} for one in locked.dependencies],
    }


def module_facts(module: SourcedModule) -> dict[str, object]:
    """Return the module's identity for scripts."""
    return {"module": module.name, "place": module.place, "source": module.key}


def unresolved_failures(sources: SourcedModules) -> list[tuple[str, SourceFailedError]]:
    """Return the modules of a plan without a source, and why."""
    return [(one.entry.module, SourceFailedError.of(one.error)) for one in sources.unresolved]


def tell_failures(screen: Screen, failures: Sequence[tuple[str, SourceFailedError]]) -> None:
    """Report the failures of several modules."""
    for name, error in failures:
        screen.text(failure.text(_of_module(name, error)))


def _of_module(name: str, error: SourceFailedError) -> SourceFailedError:
    return SourceFailedError(error.cause, f"{name}: {error.summary}", detail=error.detail, hints=error.hints)
