"""The results of commands about sources: what they did with modules, or found of them, for people and for scripts.

A command says what happened, as data; only this file turns that into rows and notes, and into the object of `--json`.
Text of repositories and servers is escaped by the screen, and credentials in addresses are not shown.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock.cli import failure
from paddock.cli.answer import CommandAnswer
from paddock.cli.failure import SourceFailedError
from paddock.cli.terminal.render import Screen
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock.plan import USUAL_PLAN
from paddock.text import escape
from paddock_sources.lock.locked_module import LockedModule

if TYPE_CHECKING:
    from paddock_sources.provisioner import PinnedSource

_DIGITS: Final = 12  # of a commit or digest; enough to distinguish two by eye


@dataclass(frozen=True, slots=True)
class ModuleResult:
    """What a command did with a module, or found of it: `facts` for scripts, beside the module's identity.

    `cells` are its row for people, behind its name: the state, and what that is about; without any it has no row.
    """

    module: SourcedModule
    facts: Mapping[str, object]
    cells: Sequence[str] = ()


def module_answer(
    sources: SourcedModules, results: Sequence[ModuleResult], code: int, *, is_empty: bool | None = None
) -> CommandAnswer:
    """Return the answer about modules; `is_empty`, by default if there are none, says that nothing is locked here."""
    empty = not results if is_empty is None else is_empty
    facts = {**files_of(sources), "modules": [{**module_facts(one.module), **one.facts} for one in results]}
    rows = [(one.module.name, *one.cells) for one in results if one.cells]
    notes = [*(["nothing is locked here"] if empty else []), *sources.mirror_notes]
    return CommandAnswer(facts, shown(rows=rows, notes=notes), code)


def shown(
    *, titles: Iterable[str] = (), rows: Sequence[Sequence[str]] = (), notes: Iterable[str] = ()
) -> Callable[[Screen], None]:
    """Return what writes titles, then rows in columns, then notes."""

    def show(screen: Screen) -> None:
        for title in titles:
            screen.title(title)
        screen.listing(rows)
        for note in notes:
            screen.note(note)

    return show


# -- modules of a plan or lock file --------------------------------------------------------


def read_modules(plan: Path | None, working_dir: Path | None) -> SourcedModules:
    """Return the modules of PLAN, of `plan.yaml` in the folder if it exists, or of the folder's lock file.

    Raises:
        PlanError: the plan has problems.
        PolicyFileError: the user's settings of sources cannot be trusted or understood.
        SourceError: the lock file cannot be trusted or understood.
    """
    return SourcedModules.read(plan_named(plan, working_dir), working_dir or Path.cwd(), os.environ)


def plan_named(plan: Path | None, working_dir: Path | None) -> Path | None:
    """Return PLAN, or `plan.yaml` in the folder if it exists."""
    usual = (working_dir or Path.cwd()) / USUAL_PLAN
    return plan if plan is not None else usual if usual.is_file() else None


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


# -- failures ------------------------------------------------------------------------------

Failure = tuple[str, SourceFailedError]


def unresolved_failures(sources: SourcedModules) -> list[Failure]:
    """Return the modules of a plan without a source, and why."""
    return [(one.entry.module, SourceFailedError.of(one.error)) for one in sources.unresolved]


def failures_of(results: Iterable[tuple[SourcedModule, object]]) -> list[Failure]:
    """Return the modules that failed, and why."""
    return [(one.name, found) for one, found in results if isinstance(found, SourceFailedError)]


def tell_failures(screen: Screen, failures: Iterable[Failure]) -> None:
    """Report the failures of several modules."""
    for name, error in failures:
        named = SourceFailedError(error.cause, f"{name}: {error.summary}", detail=error.detail, hints=error.hints)
        screen.text(failure.text(named))


# -- parts of a text -----------------------------------------------------------------------


def short(commit: str) -> str:
    """Return enough of a commit or a digest to recognise it."""
    return commit.removeprefix("sha256:")[:_DIGITS]


def pin_text(locked: LockedModule) -> str:
    """Return the pin of a module, in the words that people use."""
    if not (locked.tree or locked.commit):
        # For a command, only the tools of its server are locked; for a shipped module, only what it depends on.
        what, some = ("tool", locked.mcp.definitions) if locked.mcp is not None else ("package", locked.dependencies)
        return f"{len(some)} {what}{'s' * (len(some) != 1)}"
    return short(locked.commit) if locked.tree and locked.commit else locked.commit or f"tree {short(locked.tree)}"


def date_text(moment: datetime | None) -> str:
    """Return the day of a commit, as the commit itself claims."""
    return f"{moment:%Y-%m-%d}" if moment is not None else "no date"


# -- facts for scripts ---------------------------------------------------------------------


def files_of(sources: SourcedModules) -> dict[str, object]:
    """Return the files that modules were read from."""
    return {
        "lock": str(sources.lock_path),
        "plan": str(sources.plan.origin) if sources.plan is not None else None,
    }


def module_facts(module: SourcedModule) -> dict[str, object]:
    """Return the module's identity."""
    return {"module": module.name, "place": module.place, "source": module.key}


def commit_facts(pinned: LockedModule | PinnedSource) -> dict[str, object]:
    """Return a commit and its date."""
    made = pinned.committed_at
    return {"commit": pinned.commit or None, "committed_at": made.isoformat() if made is not None else None}


def code_facts(locked: LockedModule | None) -> dict[str, object]:
    """Return the locked code and what it depends on; of no lock the same keys."""
    return {
        "tree": (locked.tree or None) if locked is not None else None,
        "subdirectory": (locked.subdirectory or None) if locked is not None else None,
        "dependencies": [
            {"name": one.name, "version": one.version} for one in (locked.dependencies if locked is not None else ())
        ],
    }


def locked_facts(locked: LockedModule | None) -> dict[str, object] | None:
    """Return all that is locked of a module."""
    if locked is None:
        return None
    ref = {"requested_ref": locked.requested_ref or None, "requested_kind": locked.requested_kind or None}
    return {**ref, **commit_facts(locked), **code_facts(locked)}
