"""Write a plan that is in TOML or JSON as YAML, beside it, or one that extends a bundle.

A converted plan says the same, so it needs the same lock file. The old file stays, with its comments, which are not
carried over. To Paddock the new one is another plan: it has another digest, so what was accepted and granted does not
count for it.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Final

import click
import yaml

from paddock.cli.bundle_plan import extending_text, no_such_plan
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.render import Screen
from paddock.errors import PlanError, PlanProblem
from paddock.module_sources.bundles import BundleOptions, Pinned, pin_bundles
from paddock.module_sources.provisioning import SourceOptions
from paddock.plan.formats.document import YAML_EXTENSIONS, conversion_of, read_document
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.plan.writing import PlannedModule, plan_exists, write_plan
from paddock.text import escape

_NEVER_FOLDED: Final = 1_000_000  # characters of a line


def convert(written: str, plan: Path | None, *, replace: bool) -> tuple[Path, MountPlan, list[PlannedModule]]:
    """Write the plan of the file `written` as YAML to `plan`, by default beside it.

    Returns: the new file, its plan, and the modules in it.

    Raises:
        click.UsageError: it is YAML already, or `plan` is in another folder than the file.
        PlanError: `written` is an address, or no plan that can be read.
        KindError: `plan` exists and is not to be replaced, or cannot be written.
    """
    origin = Path(written)
    if "://" in written and not os.path.lexists(origin):
        hint = "fetch the plan, and name its file, as in `paddock init --from plan.toml`"
        raise PlanError([PlanProblem("", "is an address; `--from` takes the file of a plan", hint)], origin=written)
    if not origin.suffix and not os.path.lexists(origin):
        hint = "name the file of a plan in TOML or JSON, or a bundle: its folder, its file, or its address"
        raise PlanError([PlanProblem("", no_such_plan(written), hint)], origin=written)
    if origin.suffix.lower() in YAML_EXTENSIONS and os.path.lexists(origin):
        raise click.UsageError(f"--from: `{escape(written)}` is in YAML already: there is nothing to convert")
    if origin.is_dir():
        hint = "name the file of a plan in TOML or JSON, or the folder of a bundle"
        raise PlanError([PlanProblem("", "is a folder without a bundle", hint)], origin=written)
    plan = plan or origin.with_suffix(".yaml")
    folder = origin.resolve().parent
    if plan.absolute().parent.resolve() != folder:  # where relative sources start, and paddock.lock is
        raise click.UsageError(
            f"the plan is converted in its own folder: `{conversion_of(folder / origin.resolve().name)}`"
        )
    if not replace and os.path.lexists(plan):
        raise plan_exists(plan)
    document = read_document(origin, converts=True)
    load_plan(origin, written=document.written, converts=True)  # its errors name this file and its lines
    new = write_plan(plan, yaml_text(document.content), replace=replace)
    return plan, new, planned_modules(new)


def extend(
    written: str,
    plan: Path,
    screen: Screen,
    *,
    replaces: bool,
) -> tuple[Path, MountPlan, list[PlannedModule]]:
    """Write a plan that extends the bundle `written`, which is fetched and pinned, and has nothing of its own.

    Returns: `plan`, what is in it, and its modules. After an error, nothing is written.

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
            options = BundleOptions(
                SourceOptions(progress=progress),
                lends_keys=True,
                written=text.encode(),
            )
            return await pin_bundles(plan, os.environ, options)

    def without_plan(one: PlanProblem) -> PlanProblem:
        return changed(one, file="", line=None) if one.file in ("", str(plan)) else one

    try:
        asyncio.run(interruptible(pin, screen))
    except PlanError as error:  # the plan was not written, so nobody can look at its lines
        error.retell(f"bundle `{written}`", without_plan)
        raise
    found = write_plan(plan, text, replace=replaces)
    return plan, found, planned_modules(found)


def planned_modules(plan: MountPlan) -> list[PlannedModule]:
    """Return the modules of a plan that was read, as those that `init` reports."""
    return [
        PlannedModule(one.kind, one.module, one.source, permissions=one.permissions, keeps=one.state == "keep")
        for one in plan.entries()
    ]


def yaml_text(content: dict[str, Any]) -> str:
    """Return a plan's content as YAML, text of several lines as a block where YAML can hold it so."""
    for keeps_letters in (True, False):  # other characters are escaped: they could move or hide text
        text: str = yaml.dump(
            content, Dumper=_Dumper, sort_keys=False, allow_unicode=keeps_letters, width=_NEVER_FOLDED
        )
        if all(map(str.isprintable, text.split("\n"))):
            break
    return text


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
