"""Make all locked modules ready to run: fetched and installed, so that a run needs no further request.

`--json`: `{"lock", "plan", "modules": [{"module", "place", "source", "ready": true, "problem": null}…], "error"}`. Exit
codes: 0 all is there; 1 something is not locked or is unavailable; 4 refused by policy.
"""

from __future__ import annotations

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
    module_facts,
    pin_text,
    read_modules,
    run_source_command,
    tell_failures,
    unresolved_failures,
)
from paddock.cli.terminal.render import Screen
from paddock.module_sources.sourced_modules import SourcedModule
from paddock_sources.errors import contradicts_rules

if TYPE_CHECKING:
    from paddock_sources.provisioner import Provisioner


@click.command(epilog=example("paddock sync plan.yaml"))
@PLAN
@OFFLINE
@WORKING_DIR
@options.JSON
@options.QUIET
def sync(plan: Path | None, offline: bool, working_dir: Path | None, as_json: bool, quiet: bool) -> int:
    """Fetch and install everything that is locked, so that it runs without a network."""

    async def work(context: CommandContext) -> CommandOutcome:
        sources = await context.call(partial(read_modules, plan, working_dir))
        sources.refuse_by(context.policy)
        modules = sources.modules
        found = await context.side_by_side(modules, partial(_have, context.provider))
        failures = unresolved_failures(sources)
        failures += [
            (one.name, how) for one, how in zip(modules, found, strict=True) if isinstance(how, SourceFailedError)
        ]
        lacking = [one for one, how in zip(modules, found, strict=True) if how is False]
        tell_failures(context.screen, failures)
        for one in lacking:
            context.screen.warning(f"{one.name} is not locked: {one.key}")
        if lacking:
            context.screen.text(
                f"hint: {command_text('lock', sources)} locks what the plan names and the lock file lacks"
            )
        facts = {
            "lock": str(sources.lock_path),
            "plan": str(sources.plan.origin) if sources.plan is not None else None,
            "modules": [
                {**module_facts(one), "ready": how is True, "problem": _problem(how)}
                for one, how in zip(modules, found, strict=True)
            ],
        }
        ready = [one for one, how in zip(modules, found, strict=True) if how is True]
        return CommandOutcome(1 if failures or lacking else 0, facts, partial(_show, ready=ready))

    return run_source_command(work, offline=offline, as_json=as_json, quiet=quiet)


def _have(provider: Provisioner, module: SourcedModule) -> bool:
    """Make a module ready; False if it would have to be locked first."""
    if module.locked is None and provider.needs_lock(module.uri):
        return False
    problem = provider.contradiction(module.uri, module.locked, module.rules) if module.locked is not None else None
    if problem is not None:
        raise contradicts_rules(module.key, problem)
    ids = (module.name,) if module.entry is not None else provider.module_ids(module.uri, module.locked)
    for module_id in ids:
        provider.provide(module.uri, module_id, module.locked, module.rules)
    return True


def _problem(how: bool | SourceFailedError) -> str | None:
    if isinstance(how, SourceFailedError):
        return how.summary
    return None if how else "not locked"


def _show(screen: Screen, *, ready: list[SourcedModule]) -> None:
    screen.listing(
        [(one.name, "ready", f"{one.key} at {pin_text(one.locked)}" if one.locked else one.key) for one in ready]
    )
    if not ready:
        screen.note("nothing is locked here")
