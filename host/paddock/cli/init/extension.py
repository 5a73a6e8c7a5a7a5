"""Write a plan that extends a bundle, which is fetched and pinned; the plan has nothing of its own."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from paddock.cli.bundle_plan import extending_text
from paddock.cli.init.conversion import planned_modules
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError, PlanError, PlanProblem
from paddock.module_sources.bundles import BundleOptions, Pinned, pin_bundles
from paddock.plan.model import MountPlan
from paddock.plan.writing import PlannedModule, plan_exists
from paddock.text import reason_of


def extend(written: str, plan: Path, screen: Screen, *, replaces: bool) -> tuple[MountPlan, list[PlannedModule]]:
    """Write a plan that extends the bundle `written`; return it with its modules. After an error, nothing is written.

    Raises:
        KindError: `plan` exists and is not to be replaced, or cannot be written.
        PaddockError: the bundle cannot be had, or has problems.
        Interrupted: a person or a signal ended it.
    """
    if not replaces and os.path.lexists(plan):
        raise plan_exists(plan)
    trial = plan.with_name(f".{plan.stem}.unfinished-{os.getpid()}{plan.suffix}")

    async def pin() -> Pinned | None:
        with FetchProgress(screen) as progress:
            return await pin_bundles(trial, os.environ, BundleOptions(lends_keys=True, progress=progress))

    try:
        trial.write_text(extending_text(written, plan.absolute().parent), encoding="utf-8")
        pinned = asyncio.run(interruptible(pin, screen))
        assert pinned is not None, "the plan extends a bundle"
        os.replace(trial, plan)
    except PlanError as error:  # of a file that is gone when a person reads it

        def without_trial(one: PlanProblem) -> PlanProblem:
            return replace(one, file="", line=None) if Path(one.file).name in ("", trial.name) else one

        error.retell(f"bundle `{written}`", without_trial)
        raise
    except OSError as error:
        raise KindError("PlanNotWrittenError", f"`{plan}` cannot be written: {reason_of(error)}") from error
    finally:
        with suppress(FileNotFoundError):
            trial.unlink()
    return replace(pinned.plan, origin=plan.resolve()), planned_modules(pinned.plan)
