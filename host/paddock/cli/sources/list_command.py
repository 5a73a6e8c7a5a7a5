"""List the modules of a plan, or of a lock file: where each comes from, and what it is pinned to. It sends no request.

`--json`: `{"lock", "plan", "modules": [{"module", "place", "kind", "source", "layer", "pin", "live", "public",
"constraints", "dependencies", "locked": {…} or null}…], "unused": [source…], "error"}`; `layer` is the setting that
replaced the plan's source, or null; `pin` is `tag`, `branch`, `commit`, `ref`, `default`, `version`, `folder`,
`installed`, `shipped`, or `none` where no source was found; `constraints`, each with its place, and `dependencies`,
which is `locked` or null, bound what the module depends on; `live` whether the module would run from a folder that may
change at any time, `public` whether its entry in the plan grants it every public host. A plan that
extends bundles has `"bundles": [{"name", "source"}…], "agents": [name…], "context": {name: source…}, "instruction": the
SHA-256 of the bundles' own, "config": {place: {…}…}` as well. Exit codes: 0; 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import click

from paddock.authorization.grant_lines import brought_by_bundles
from paddock.authorization.open_web import reaches_the_web
from paddock.cli import options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import example
from paddock.cli.failure import masked
from paddock.cli.sources.results import (
    date_text,
    files_of,
    locked_facts,
    pin_text,
    read_modules,
    shown,
    unresolved_failures,
)
from paddock.cli.sources.source_command import PLAN, WORKING_DIR
from paddock.cli.terminal.render import Screen
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock.plan.model import MountPlan
from paddock_sources import FolderUri
from paddock_sources.lock.locked_module import LockedModule


@dataclass(frozen=True, slots=True)
class _Row:
    """A module as the object of `--json` has it; only what is locked stands there in other words."""

    module: str
    place: str | None
    kind: str | None
    source: str | None
    layer: str | None
    pin: str
    live: bool = False
    public: bool = False  # whether its entry grants it every public host
    constraints: tuple[str, ...] = ()  # on what it depends on, each with its place
    dependencies: Literal["locked"] | None = None
    locked: LockedModule | None = None


@click.command("list", epilog=example("paddock list plan.yaml"))
@PLAN
@click.option(
    "--dev", "live", is_flag=True, help="Mark the modules in folders, which `run --dev` runs from where they are."
)
@WORKING_DIR
@options.JSON
def list_(plan: Path | None, live: bool, working_dir: Path | None, as_json: bool) -> int:
    """List modules with the source of each and what it is pinned to.

    PLAN is plan.yaml by default. Without a plan, `list` shows the modules that are locked.
    """

    def work() -> CommandAnswer:
        sources = read_modules(plan, working_dir)
        rows = list(_rows(sources, live=live))
        facts = {
            **files_of(sources),
            "modules": [{**asdict(row), "locked": locked_facts(row.locked)} for row in rows],
            "unused": [one.source for one in sources.unused],
            **(_bundle_facts(sources.plan) if sources.plan is not None else {}),
        }
        return CommandAnswer(facts, _shown(sources, rows))

    return CommandReport(Screen(sys.stderr, masked), as_json, masked).answer(work)


def _bundle_facts(plan: MountPlan) -> dict[str, object]:
    """Return what a plan has from the bundles that it extends: nothing, if there are none."""
    if plan.bundles is None:
        return {}
    return {
        "bundles": [{"name": name, "source": source} for name, source in plan.bundles.sources],
        "agents": list(plan.agents),
        "context": dict(plan.bundles.context),
        "instruction": sha256(plan.bundles.instruction.strip().encode()).hexdigest(),
        "config": {entry.path: entry.config for entry in plan.own_entries()},
    }


def _rows(sources: SourcedModules, *, live: bool) -> Iterator[_Row]:
    if sources.plan is None:
        yield from (_row(module, live=live) for module in sources.modules)
        return
    found = {module.place: module for module in sources.modules}
    unresolved = {one.entry.path for one in sources.unresolved}
    for entry in sources.plan.entries():
        module = found.get(entry.path)
        if module is not None:
            row = _row(module, live=live)
        elif entry.path in unresolved:
            row = _Row(entry.module, entry.path, entry.kind, entry.source, None, "none")
        else:
            row = _Row(entry.module, entry.path, entry.kind, None, None, "shipped")
        yield replace(row, public=reaches_the_web(entry.permissions))


def _row(module: SourcedModule, *, live: bool) -> _Row:
    return _Row(
        module.name,
        module.place,
        module.entry.kind if module.entry is not None else None,
        module.key,
        module.layer,
        module.uri.pin_word(module.locked.requested_kind if module.locked is not None else ""),
        live=live and isinstance(module.uri, FolderUri),
        constraints=tuple(one.shown for one in module.rules.constraints),
        dependencies="locked" if module.rules.by_uv_lock else None,
        locked=module.locked,
    )


def _shown(sources: SourcedModules, rows: Sequence[_Row]) -> Callable[[Screen], None]:
    marks = [", ".join((["LIVE"] if row.live else []) + (["ANY PUBLIC HOST"] if row.public else [])) for row in rows]
    cells = [
        (
            row.module,
            *([mark] if any(marks) else []),
            _state(row),
            f"{row.source or ''}{f', by {row.layer}' if row.layer is not None else ''}",
        )
        for row, mark in zip(rows, marks, strict=True)
    ]
    return shown(rows=cells, notes=_notes(sources, rows))


def _notes(sources: SourcedModules, rows: Sequence[_Row]) -> Iterator[str]:
    for row in rows:
        if row.constraints:
            yield f"{row.module}: its dependencies keep to {', '.join(row.constraints)}"
        if row.dependencies == "locked":
            yield f"{row.module}: its dependencies are those of its own uv.lock"
    for name, error in unresolved_failures(sources):
        yield f"{name}: {error.summary}"
    if sources.plan is not None and sources.plan.bundles is not None:
        names = [*dict.fromkeys(name for name, _ in sources.plan.bundles.sources)]
        yield f"with bundle{'s' * (len(names) > 1)} {', '.join(names)}"
        yield from brought_by_bundles(sources.plan)
    if not rows:
        yield f"nothing is locked in {sources.lock_path.parent}"
    yield from sources.mirror_notes
    for one in sources.unused:
        yield f"locked, and of no module of this plan: {one.source}"


def _state(row: _Row) -> str:
    if row.pin == "none":
        return "not found"
    if row.pin in ("shipped", "installed"):
        return row.pin
    if row.locked is None:
        return f"{row.pin}, not locked"
    made = f" of {date_text(row.locked.committed_at)}" if row.locked.committed_at else ""
    return f"{row.pin}, {pin_text(row.locked)}{made}"
