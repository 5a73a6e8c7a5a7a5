"""Lock sources that a plan names and the lock file lacks; with `--check`, only report whether one is missing.

`--json`: `{"lock", "plan", "locked": [module…], "kept": N, "missing": [module…], "unused": [source…], "error"}`; a
module is `{"module", "place", "source", "locked": {"requested_ref", "requested_kind", "commit", "committed_at", "tree",
"subdirectory", "dependencies"}}`, and with `missing` its `reason`. Exit codes: 0; 1 something could not be locked or,
with `--check`, is not as it should be; 4 refused.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.command_group import example
from paddock.cli.failure import SourceFailedError
from paddock.cli.sources.source_command import (
    OFFLINE,
    PLAN,
    WORKING_DIR,
    CommandContext,
    CommandOutcome,
    command_text,
    locked_facts,
    module_facts,
    pin_text,
    read_modules,
    run_source_command,
    tell_failures,
    unresolved_failures,
)
from paddock.cli.terminal.render import Screen
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
def lock(plan: Path | None, checks: bool, offline: bool, working_dir: Path | None, as_json: bool, quiet: bool) -> int:
    """Lock the modules of a plan that paddock.lock lacks; keep the rest.

    PLAN is plan.yaml by default.
    """

    async def work(context: CommandContext) -> CommandOutcome:
        sources = await context.call(partial(read_modules, plan, working_dir))
        if sources.plan is None:
            raise click.UsageError("name the PLAN whose sources are to be locked; there is no plan.yaml in the folder")
        sources.refuse_by(context.policy)
        return await _lock(context, sources, checks=checks)

    return run_source_command(work, offline=offline, as_json=as_json, quiet=quiet)


async def _lock(context: CommandContext, sources: SourcedModules, *, checks: bool) -> CommandOutcome:
    modules = list(sources.by_source().values())
    judged = list(
        zip(modules, await context.side_by_side(modules, partial(_why_to_lock, context.provider)), strict=True)
    )
    failures = unresolved_failures(sources)
    failures += [(one.name, found) for one, found in judged if isinstance(found, SourceFailedError)]
    why = {one.key: found for one, found in judged if isinstance(found, str)}
    lacking = [one for one in modules if one.key in why]
    done: list[tuple[SourcedModule, LockedModule]] = []
    if not checks:
        locked = list(
            zip(lacking, await context.side_by_side(lacking, partial(_locked, context.provider)), strict=True)
        )
        failures += [(one.name, found) for one, found in locked if isinstance(found, SourceFailedError)]
        news = {one.key: found for one, found in locked if isinstance(found, LockedModule)}
        change = partial(LockFile.with_news, news=tuple(news.values()), since=sources.lock)
        after = await context.call(partial(update_lock, sources.lock_path, change, os.environ))
        done = [(one, news[one.key]) for one in lacking if one.key in news and after.get(one.key) == news[one.key]]
        for one in lacking:
            if one.key in news and after.get(one.key) != news[one.key]:
                context.screen.warning(f"{one.name}: somebody else locked it meanwhile, and that stays")
    missing = lacking if checks else []
    facts = {
        "lock": str(sources.lock_path),
        "plan": str(sources.plan.origin) if sources.plan is not None else None,
        "locked": [{**module_facts(one), "locked": locked_facts(found)} for one, found in done],
        "kept": sum(found is None for _, found in judged),
        "missing": [
            {**module_facts(one), "locked": locked_facts(one.locked), "reason": why[one.key]} for one in missing
        ],
        "unused": [one.source for one in sources.unused],
    }
    tell_failures(context.screen, failures)
    if missing:
        context.screen.warning(f"{sources.lock_path} is not up to date: {', '.join(one.name for one in missing)}")
    shown = partial(
        _show, sources=sources, done=done, missing=[(one, why[one.key]) for one in missing], is_whole=not failures
    )
    return CommandOutcome(1 if failures or missing else 0, facts, shown)


def _why_to_lock(provider: Provisioner, module: SourcedModule) -> str | None:
    """Return why a source has to be locked, or locked again; None where its lock is as it should be."""
    provider.rules(module.uri, module.rules)  # raises where they cannot be followed
    if module.locked is None:
        return "not locked" if provider.needs_lock(module.uri) else None
    if not provider.heeds_lock(module.uri):
        return None
    stale = provider.stale(module.uri, module.locked)
    if stale is not None:
        return stale.reason
    problem = provider.contradiction(module.uri, module.locked, module.rules)
    return None if problem is None else f"locked with {problem}"


def _locked(provider: Provisioner, module: SourcedModule) -> LockedModule:
    if module.locked is not None and module.locked.commit:
        return provider.relock(module.uri, module.locked, module.rules)
    locked = provider.lock(module.uri, previous=module.locked, rules=module.rules)
    return replace(locked, source=module.key)


def _show(
    screen: Screen,
    *,
    sources: SourcedModules,
    done: list[tuple[SourcedModule, LockedModule]],
    missing: list[tuple[SourcedModule, str]],
    is_whole: bool,
) -> None:
    screen.listing([(one.name, "locked", f"{one.key} at {pin_text(found)}") for one, found in done])
    screen.listing([(one.name, reason, one.key) for one, reason in missing])
    if missing:
        screen.note(f"{command_text('lock', sources)} locks what is lacking")
    elif is_whole and not done:
        is_there = sources.lock_path.exists()
        said = f"{sources.lock_path} is up to date" if is_there else "nothing of this plan has to be locked"
        screen.note(said)
    for one in sources.unused:
        screen.note(f"of no module of this plan: {one.source}; `paddock remove {one.source}` takes it out")
