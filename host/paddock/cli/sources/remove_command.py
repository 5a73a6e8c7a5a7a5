"""Take a module out of the lock file and, if wanted, out of a plan.

A locked source stays where another module of the plan comes from it. Fetched code stays in the cache, which `paddock
cache prune` clears.

A source that `plan.yaml` of the folder still names is not removed from the lock file alone: the next session would lock
it again, as it is that day, and no person would have seen what it asks for.

`--json`: `{"lock", "plan", "removed": [source…], "kept": [source…], "places": [place that was in the plan…], "error"}`.
Exit codes: 0; 1 nothing of that name is there, or it cannot be taken out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer
from paddock.cli.bundle_plan import PlanPath
from paddock.cli.command_group import example
from paddock.cli.sources.bundle_entry import bundle_index, other_bundles, remove_bundle
from paddock.cli.sources.results import files_of, read_modules, shown
from paddock.cli.sources.source_command import WORKING_DIR, CommandContext, run_source_command
from paddock.errors import KindError
from paddock.module_sources.sourced_modules import NO_SUCH_MODULE, SourcedModules
from paddock.plan.edit import PlanEdit, without_entry
from paddock_sources.lock.lock_file import LockFile


@click.command(epilog=example("paddock remove tool-shout --from plan.yaml"))
@click.argument("module", metavar="MODULE|SOURCE")
@click.option("--from", "plan", metavar="PLAN", type=PlanPath(path_type=Path), help="Also take it out of this plan.")
@WORKING_DIR
@options.JSON
def remove(module: str, plan: Path | None, working_dir: Path | None, as_json: bool) -> int:
    """Remove a module from paddock.lock; with --from, also from a plan.

    With --from, it may be a bundle that the plan extends.
    """

    async def work(context: CommandContext) -> CommandAnswer:
        index = None if plan is None else await context.call(bundle_index, module, plan)
        if plan is not None and index is not None:
            return await context.call(remove_bundle, plan, index)
        sources = await context.call(read_modules, plan, working_dir)
        edits: list[PlanEdit] = []
        if plan is None:
            origin = sources.plan.origin if sources.plan is not None else None
            sources = await context.call(sources.as_locked, os.environ)
            meant = sources.meant(module)  # also by the id of a module in it
            found = [one for one in meant if one.key == module] or [*meant]
            if len(keys := sorted({one.key for one in found})) > 1:
                raise _several(module, keys)
            if origin is not None and any(one.entry is not None for one in found):
                raise KindError(
                    "StillNamedError",
                    f"`{module}` is still named in `{origin}`: the next session would lock it again",
                    hints=[
                        f"take it out of both: `paddock remove {module} --from {origin}`",
                        f"or take a newer version of it: `paddock update {module}`",
                    ],
                )
        else:
            try:
                place = _place(sources, module)
            except KindError as error:
                error.hints = (*error.hints, *await context.call(other_bundles, plan))
                raise
            found = [one for one in sources.modules if one.place == place]
            edits = [await context.call(without_entry, plan, place)]
        left = {key for one in sources.modules if one not in found for key in one.keys}
        locked = sorted({key for one in found for key in one.keys if sources.lock.get(key) is not None})
        gone = [key for key in locked if key not in left]
        for edit in edits:
            await context.call(edit.write)
        await context.call(LockFile.update, sources.lock_path, lambda lock: lock.without(gone))
        facts = {
            **files_of(sources),
            "removed": gone,
            "kept": [key for key in locked if key in left],
            "places": [edit.place for edit in edits],
        }
        titles = [
            *(f"{edit.path} is without {module}" for edit in edits),
            *(f"{sources.lock_path} is without {source}" for source in gone),
        ]
        return CommandAnswer(facts, shown(titles=titles, notes=() if titles else ("nothing was locked of it",)))

    return run_source_command(work, offline=True, as_json=as_json)


def _place(sources: SourcedModules, written: str) -> str:
    """Return the place in the plan of the one module that is meant, which may be one without a source.

    Raises:
        KindError: no module fits, or several.
    """
    assert sources.plan is not None
    plan = sources.plan
    places = [entry.path for entry in plan.own_entries() if entry.module == written]
    if not places:
        places = [entry.path for entry in plan.entries() if entry.module == written]
    if not places:
        places = [one.place for one in sources.meant(written) if one.place is not None]
    if len(places) > 1:
        raise _several(written, [plan.place_of(place).text for place in places])
    return places[0]


def _several(written: str, which: Sequence[str]) -> KindError:
    return KindError(
        NO_SUCH_MODULE,
        f"`{written}` names several modules",
        detail=[f"- {one}" for one in which],
        hints=["name its source, with the ref"],
    )
