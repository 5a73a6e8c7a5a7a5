"""Write a plan that extends a bundle, which is fetched and pinned; the plan has nothing of its own."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from paddock.cli.bundle_plan import extending_text
from paddock.cli.init.conversion import planned_modules
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.render import Screen
from paddock.errors import PlanError, PlanProblem
from paddock.module_sources.bundles import BundleOptions, Pinned, pin_bundles
from paddock.plan.model import MountPlan
from paddock.plan.writing import PlannedModule, plan_exists, write_plan


def extend(
    written: str,
    plan: Path,
    screen: Screen,
    *,
    replaces: bool,
) -> tuple[MountPlan, list[PlannedModule]]:
    """Write a plan that extends the bundle `written`; return it with its modules. After an error, nothing is written.

    Raises:
        KindError: `plan` exists and is not to be replaced, or cannot be written.
        PaddockError: the bundle cannot be had, or has problems.
        Interrupted: a person or a signal ended it.
    """
    if not replaces and os.path.lexists(plan):
        raise plan_exists(plan)
    text = extending_text(written, plan.absolute().parent)

    async def pin() -> Pinned | None:
        with FetchProgress(screen) as progress:
            options = BundleOptions(lends_keys=True, progress=progress, written=text.encode())
            return await pin_bundles(plan, os.environ, options)

    def without_plan(one: PlanProblem) -> PlanProblem:
        return replace(one, file="", line=None) if one.file in ("", str(plan)) else one

    try:
        asyncio.run(interruptible(pin, screen))
    except PlanError as error:  # the plan was not written, so nobody can look at its lines
        error.retell(f"bundle `{written}`", without_plan)
        raise
    found = write_plan(plan, text, replace=replaces)
    return found, planned_modules(found)
