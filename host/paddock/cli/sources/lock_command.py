"""Lock sources that a plan names and the lock file lacks; with `--check`, only report whether one is missing.

`--json`: `{"lock", "plan", "locked": [module…], "kept": N, "missing": [module…], "unused": [source…], "error"}`; a
module is `{"module", "place", "source", "locked": {"requested_ref", "requested_kind", "commit", "committed_at", "tree",
"subdirectory", "dependencies"}}`, and with `missing` its `reason`. Exit codes: 0; 1 something could not be locked or,
with `--check`, is not as it should be; 4 refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer
from paddock.cli.command_group import example
from paddock.cli.sources.results import (
    command_text,
    failures_of,
    files_of,
    locked_facts,
    module_facts,
    pin_text,
    shown,
    tell_failures,
    unresolved_failures,
)
from paddock.cli.sources.source_command import OFFLINE, PLAN, WORKING_DIR, CommandContext, over_modules
from paddock.module_sources.lock import update_lock
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock_sources.lock.lock_file import LockedModule, LockFile

if TYPE_CHECKING:
    from paddock_sources.provisioner import Provisioner


@click.command(epilog=example("paddock lock plan.yaml --check"))
@PLAN
@click.option("--check", "checks", is_flag=True, help="Write nothing; exit with 1 if paddock.lock is not up to date.")
@OFFLINE
@WORKING_DIR
@options.JSON
@options.QUIET
@partial(over_modules, gets_bundles=True)
async def lock(context: CommandContext, sources: SourcedModules, *, checks: bool) -> CommandAnswer:
    """Lock the modules of a plan that paddock.lock lacks; keep the rest.

    PLAN is plan.yaml by default.
    """
    if sources.plan is None:
        raise click.UsageError("name the PLAN whose sources are to be locked; there is no plan.yaml in the folder")
    sources.refuse_by(context.policy)
    modules = list(sources.by_source().values())
    judged = await context.side_by_side(modules, partial(_why_to_lock, context.provider))
    failures = unresolved_failures(sources) + failures_of(judged)
    lacking = [(one, found) for one, found in judged if isinstance(found, str)]
    done: list[tuple[SourcedModule, LockedModule]] = []
    if not checks:
        locked = await context.side_by_side([one for one, _ in lacking], partial(_locked, context.provider))
        failures += failures_of(locked)
        news = [(one, found) for one, found in locked if isinstance(found, LockedModule)]
        change = partial(LockFile.with_news, news=[found for _, found in news], since=sources.lock)
        after = await context.call(update_lock, sources.lock_path, change, os.environ)
        done = [(one, found) for one, found in news if after.get(one.key) == found]
        for one, found in news:
            if after.get(one.key) != found:
                context.screen.warning(f"{one.name}: somebody else locked it meanwhile, and that stays")
    missing = lacking if checks else []
    facts = {
        **files_of(sources),
        "locked": [{**module_facts(one), "locked": locked_facts(found)} for one, found in done],
        "kept": sum(found is None for _, found in judged),
        "missing": [
            {**module_facts(one), "locked": locked_facts(one.locked), "reason": reason} for one, reason in missing
        ],
        "unused": [one.source for one in sources.unused],
    }
    tell_failures(context.screen, failures)
    if missing:
        context.screen.warning(f"{sources.lock_path} is not up to date: {', '.join(one.name for one, _ in missing)}")
    rows = [
        *((one.name, "locked", f"{one.key} at {pin_text(found)}") for one, found in done),
        *((one.name, reason, one.key) for one, reason in missing),
    ]
    notes = _notes(sources, rows, is_lacking=bool(missing), is_whole=not failures)
    return CommandAnswer(facts, shown(rows=rows, notes=notes), 1 if failures or missing else 0)


def _why_to_lock(provider: Provisioner, module: SourcedModule) -> str | None:
    """Return why a source has to be locked, or locked again; None where its lock is as it should be."""
    supply = provider.supply(module.uri)
    supply.rules(module.uri, module.rules)  # raises where they cannot be followed
    if module.locked is None:
        return "not locked" if supply.needs_lock(module.uri) else None
    if not supply.heeds_lock(module.uri):
        return None
    stale = supply.stale(module.uri, module.locked)
    if stale is not None:
        return stale.reason
    problem = provider.contradiction(module.uri, module.locked, module.rules)
    return None if problem is None else f"locked with {problem}"


def _locked(provider: Provisioner, module: SourcedModule) -> LockedModule:
    if module.locked is not None and module.locked.commit:
        return provider.relock(module.uri, module.locked, module.rules)
    return replace(provider.lock(module.uri, previous=module.locked, rules=module.rules), source=module.key)


def _notes(
    sources: SourcedModules,
    rows: Sequence[object],
    *,
    is_lacking: bool,
    is_whole: bool,
) -> Iterator[str]:
    if is_lacking:
        yield f"{command_text('lock', sources)} locks what is lacking"
    elif is_whole and not rows:
        is_there = sources.lock_path.exists()
        yield f"{sources.lock_path} is up to date" if is_there else "nothing of this plan has to be locked"
    for one in sources.unused:
        yield f"of no module of this plan: {one.source}; `paddock remove {one.source}` takes it out"
    yield from sources.mirror_notes
