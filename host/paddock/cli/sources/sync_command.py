"""Make all locked modules ready to run: fetched and installed, so that a run needs no further request.

`--json`: `{"lock", "plan", "modules": [{"module", "place", "source", "ready": true, "problem": null}…], "error"}`. Exit
codes: 0 all is there; 1 something is not locked or is unavailable; 4 refused by policy.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer
from paddock.cli.command_group import example
from paddock.cli.failure import SourceFailedError
from paddock.cli.sources.results import (
    ModuleResult,
    command_text,
    failures_of,
    module_answer,
    pin_text,
    tell_failures,
    unresolved_failures,
)
from paddock.cli.sources.source_command import OFFLINE, PLAN, WORKING_DIR, CommandContext, over_modules
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock_sources.errors import contradicts_rules

if TYPE_CHECKING:
    from paddock_sources.provisioner import Provisioner


@click.command(epilog=example("paddock sync plan.yaml"))
@PLAN
@OFFLINE
@WORKING_DIR
@options.JSON
@options.QUIET
@partial(over_modules, gets_bundles=True)
async def sync(context: CommandContext, sources: SourcedModules) -> CommandAnswer:
    """Fetch and install everything that is locked, so that it runs without a network."""
    sources.refuse_by(context.policy)
    found = await context.side_by_side(sources.modules, partial(_have, context.provider))
    failures = unresolved_failures(sources) + failures_of(found)
    lacking = [one for one, how in found if how is False]
    tell_failures(context.screen, failures)
    for one in lacking:
        context.screen.warning(f"{one.name} is not locked: {one.key}")
    if lacking:
        context.screen.text(f"hint: {command_text('lock', sources)} locks what the plan names and the lock file lacks")
    return module_answer(
        sources,
        [_result(one, how) for one, how in found],
        1 if failures or lacking else 0,
        is_empty=not any(how is True for _, how in found),
    )


def _have(provider: Provisioner, module: SourcedModule) -> bool:
    """Make a module ready; False if it would have to be locked first."""
    supply = provider.supply(module.uri)
    if module.locked is None and supply.needs_lock(module.uri):
        return False
    problem = provider.contradiction(module.uri, module.locked, module.rules) if module.locked is not None else None
    if problem is not None:
        raise contradicts_rules(module.key, problem)
    ids = (module.name,) if module.entry is not None else supply.module_ids(module.uri, module.locked)
    for module_id in ids:
        provider.provide(module.uri, module_id, module.locked, module.rules)
    return True


def _result(module: SourcedModule, how: bool | SourceFailedError) -> ModuleResult:
    if how is True:
        pinned = f"{module.key} at {pin_text(module.locked)}" if module.locked else module.key
        return ModuleResult(module, {"ready": True, "problem": None}, ("ready", pinned))
    problem = how.summary if isinstance(how, SourceFailedError) else "not locked"
    return ModuleResult(module, {"ready": False, "problem": problem})
