"""The options that several commands take, and their values.

This file imports nothing that a command works with: a chat has the terminal keep its keys before it loads the rest.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from paddock.plan import USUAL_PLAN

if TYPE_CHECKING:
    from paddock.module_sources.provisioning import SourceOptions
    from paddock_sandbox.profile import IsolationLevel
    from paddock_sources.errors import NoFetching
    from paddock_sources.progress import Progress

ISOLATING: Final = ("ns", "bwrap", "landlock")
LEVELS: Final = click.Choice([*ISOLATING, "none"])

_LONGEST_LINE: Final = 300  # characters; people paste no longer one

JSON: Final = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, and nothing else.")
FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)


def working_dir(what: str) -> Callable[..., Any]:
    """Return the option for a folder that a command works in; `what` is its help."""
    return click.option("-C", "working_dir", metavar="DIR", type=FOLDER, help=what)


WORKING_DIR: Final = working_dir("The folder that modules work in; by default the current one.")
ISOLATION: Final = click.option(
    "--isolation",
    type=LEVELS,
    help="Run at exactly this isolation level, even a weak one; by default at the strongest that works here.",
)
LIMITS: Final = click.option(
    "--limit", "limits", metavar="K=V", multiple=True, help="Set a limit, such as runtime_max=30s; can be repeated."
)

QUIET: Final = click.option(
    "-q", "--quiet", is_flag=True, help="Write only warnings and errors to stderr, and nothing that modules print."
)

_DENY_READ: Final = click.option(
    "--deny-read",
    metavar="PATH|NAME",
    multiple=True,
    help="A file or folder that it may not read in what it may, or each of that name; `@secrets` is your secret files.",
)
_SOURCES: Final = (
    click.option("--offline", is_flag=True, help="Fetch nothing: run what the cache has, or name what it lacks."),
    click.option("--locked", is_flag=True, help="Refuse to start if paddock.lock is not up to date."),
    click.option("--frozen", is_flag=True, help="Run exactly what paddock.lock says, and never change it."),
    click.option("--dev", is_flag=True, help="Run modules in folders from where they are, without a copy."),
)
_SESSION: Final = (
    WORKING_DIR,
    click.option(
        "--isolation",
        type=LEVELS,
        help="Run modules at exactly this level, unless their entry names one; even a weak one. By default, they run "
        "at the strongest that works here.",
    ),
    click.option(
        "--trust-plan",
        is_flag=True,
        help="Accept everything that the plan asks for, for this run only.",
    ),
    click.option(
        "--grant",
        "grants",
        metavar="MODULE=PRESET",
        multiple=True,
        help="Grant a module this preset beside what the plan grants it, for this run only. Repeat it, or separate "
        "several by commas.",
    ),
)


def read_age(context: click.Context, option: click.Parameter, written: str | None) -> float | None:
    """Return an age in seconds; None if none is given.

    Raises:
        click.UsageError: it is none.
    """
    from paddock.plan.problems import NotAcceptedError
    from paddock.plan.units import parse_age
    from paddock.text import escape

    if written is None:
        return None
    try:
        return parse_age(written)
    except NotAcceptedError as error:
        raise click.UsageError(f"{option.opts[0]} takes {error.accepted}: {escape(error.problem)}") from error


def session_ids(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Return the ids of kept sessions that begin as what was typed, for the completion of a shell."""
    from paddock.session.journals.journal_folder import Journals  # for few commands

    return [id for id in Journals().ids() if id.startswith(typed)]


_JOURNAL: Final = (
    click.option(
        "--resume",
        "session",
        metavar="ID",
        shell_complete=session_ids,
        help="Go on with an earlier session: its id, the beginning of it, or last.",
    ),
    click.option(
        "--continue",
        "session",
        flag_value="last",
        default=None,
        help="Go on with the last session of this folder, as --resume last does.",
    ),
    click.option(
        "--accept-changes", is_flag=True, help="Go on with it although the plan, its code or its grants have changed."
    ),
    click.option("--no-journal", is_flag=True, help="Do not keep this session: it cannot be resumed."),
)


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """The given options about modules' code."""

    offline: bool = False
    locked: bool = False
    frozen: bool = False
    dev: bool = False

    def read(self, progress: Progress) -> SourceOptions:
        """Return their meaning; `progress` shows slow steps.

        Raises:
            click.UsageError: two of them contradict each other.
        """
        from paddock.module_sources.provisioning import SourceOptions
        from paddock_sources.locked_sources import LockUse

        if self.locked and self.frozen:
            raise click.UsageError(
                "--locked wants the lock file to be up to date, --frozen takes it as it is: name one"
            )
        if self.dev and (self.locked or self.frozen):
            raise click.UsageError("--dev runs folders as they are, which no lock file can say")
        use = LockUse.FROZEN if self.frozen else LockUse.LOCKED if self.locked else LockUse.UPDATE
        return SourceOptions(use, offline=self.offline, live=self.dev, progress=progress, no_fetching=no_fetching())


@dataclass(frozen=True, slots=True)
class GrantFlags:
    """The given grants: those `allowed`, by family, and what is excluded from reading."""

    allowed: Mapping[str, tuple[str, ...]]
    deny_read: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JournalFlags:
    """The given options about keeping a session, and going on with an earlier one, `session`."""

    session: str | None = None
    accept_changes: bool = False
    no_journal: bool = False


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of a command that opens a session; each of `grants` is MODULE=PRESET."""

    working_dir: Path | None = None
    isolation: IsolationLevel | None = None
    trust_plan: bool = False
    grants: tuple[str, ...] = ()
    sources: SourceFlags = SourceFlags()
    kept: JournalFlags = JournalFlags()


def no_fetching() -> NoFetching:
    """Return what to tell a person who gave `--offline` about code that is missing: the command that fetches it."""
    from paddock_sources.errors import NoFetching

    def online(is_locked: bool) -> str:
        again = this_command(without="--offline") or "the same command without `--offline`"
        return f"fetch it while there is a network: {again}"

    return NoFetching("nothing is fetched offline", online)


def this_command(*more: str, without: str | None = None) -> str:
    """Return this command with `more` options and `without` one, as `command_to_paste` does."""
    words = sys.argv[1:]
    before = words[: words.index("--")] if "--" in words else words
    kept = [one for one in before if one != without]
    return command_to_paste(["paddock", *kept, *more, *words[len(before) :]])


def command_to_paste(words: Sequence[str]) -> str:
    """Return a command in backticks; empty if it is too long to be pasted, or has characters that cannot be shown."""
    line = shlex.join(words)
    return f"`{line}`" if len(line) <= _LONGEST_LINE and line.isprintable() else ""


class PlanAndPrompt(NamedTuple):
    """The words of a command line, as a plan and a prompt; `resumed` is the session to go on with."""

    plan: str
    prompt: str | None
    resumed: str | None = None

    @property
    def run(self) -> str:
        """The command that gives the prompt to the plan."""
        prompt = [] if self.prompt is None else [self.prompt]
        return shlex.join(["paddock", "run", self.plan, *prompt, *self.options])

    @property
    def options(self) -> list[str]:
        """The options that go on with the session."""
        return [] if self.resumed is None else ["--resume", self.resumed]


def plan_and_prompt(words: Sequence[str], resumed: str | None = None, folder: Path | None = None) -> PlanAndPrompt:
    """Return the probable meaning of words: a plan, first or last, and a prompt, which may have come without quotes.

    Without a plan it is that of the session to go on with, or else plan.yaml. `folder` is the one that modules work in.

    Raises:
        PaddockError: there is no such session, or its journal cannot be used.
    """
    for plan, others in ((words[0], words[1:]), (words[-1], words[:-1])) if words else ():
        if _names_a_plan(plan):
            return PlanAndPrompt(plan, " ".join(others) if others else None, resumed)
    usual = USUAL_PLAN if resumed is None else _plan_of_session(resumed, folder)
    return PlanAndPrompt(usual, " ".join(words) if words else None, resumed)


def _plan_of_session(asked: str, folder: Path | None) -> str:
    """Return the plan that a session last had, by its name if it is in this folder."""
    from paddock.session.journals.journal_folder import Journals  # for few commands

    journals = Journals()
    kept, _ = journals.read(journals.find(asked, folder))
    plan = Path(kept.metas[-1].plan or USUAL_PLAN)
    return plan.name if plan.parent == Path.cwd() else str(plan)


def _names_a_plan(word: str) -> bool:
    if os.path.exists(word):  # not of a path object, which raises for a prompt that is longer than a name
        return True
    from paddock.cli.bundle_plan import names_bundle
    from paddock.plan.formats.document import EXTENSIONS

    return names_bundle(word) or Path(word).suffix.lower() in EXTENSIONS


def check_verbosity(*, quiet: bool, verbose: bool) -> None:
    """Raise `click.UsageError` where both are given."""
    if quiet and verbose:
        raise click.UsageError("-q leaves out what -v adds: name one")


def source_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options about modules' code, which `command` gets as `sources`."""
    return added(_SOURCES, _gathered(SourceFlags, "sources", command))


def grant_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that grant something to one module, which `command` gets as `grants`."""
    from paddock.plan.families import FAMILIES  # with what a chat does not wait for

    @wraps(command)
    def with_grants(deny_read: tuple[str, ...], **given: Any) -> int:
        allowed = {family: given.pop(f"allow_{family}") for family in FAMILIES}
        return command(grants=GrantFlags(allowed, deny_read), **given)

    allowing = (
        click.option(f"--allow-{family}", metavar=row.takes, multiple=True, help=row.help)
        for family, row in FAMILIES.items()
    )
    return added((*allowing, _DENY_READ), with_grants)


def session_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a command that opens a session, which it gets as `options`."""
    of_session = _gathered(SessionOptions, "options", command)
    return added(_SESSION, source_options(added(_JOURNAL, _gathered(JournalFlags, "kept", of_session))))


def plan_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add those options of `session_options` that are about the plan, for sessions with folders of their own."""
    return added(_SESSION[1:], source_options(_gathered(SessionOptions, "options", command)))


def _gathered(kind: type[Any], name: str, command: Callable[..., int]) -> Callable[..., int]:
    """Return the command with what it gets for the fields of `kind` as one value, which it gets as `name`."""
    names = [field.name for field in fields(kind)]

    @wraps(command)
    def with_one_value(**given: Any) -> int:
        value = kind(**{one: given.pop(one) for one in names if one in given})
        return command(**{name: value}, **given)

    return with_one_value


def added(options: tuple[Callable[..., Any], ...], command: Callable[..., int]) -> Callable[..., int]:
    """Return the command with these options, in their order."""
    for option in reversed(options):
        command = option(command)
    return command
