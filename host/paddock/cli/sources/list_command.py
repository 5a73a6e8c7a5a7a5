"""List the modules of a plan, or of a lock file: where each comes from, and what it is pinned to. It sends no request.

`--json`: `{"lock", "plan", "modules": [{"module", "place", "kind", "source", "layer", "pin", "live", "public",
"constraints", "dependencies", "locked": {…} or null}…], "unused": [source…], "error"}`; `layer` is the setting that
replaced the plan's source, or null; `pin` is `tag`, `branch`, `commit`, `ref`, `default`, `version`, `folder`,
`installed`, `shipped`, or `none` where no source was found; `constraints`, each with its place, and `dependencies`,
which is `locked` or null, bound what the module depends on; `live` whether the module would run from a folder that may
change at any time, `public` whether its entry in the plan grants it every public host. Exit codes: 0; 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from paddock.authorization.open_web import reaches_the_web
from paddock.cli import failure, options
from paddock.cli.command_group import example
from paddock.cli.failure import SourceFailedError
from paddock.cli.sources.addresses import masked
from paddock.cli.sources.source_command import (
    PLAN,
    WORKING_DIR,
    date_text,
    locked_facts,
    pin_text,
    read_modules,
    unresolved_failures,
)
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.render import Screen
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock_sources import FolderUri, SourceError
from paddock_sources.lock.locked_module import LockedModule


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    kind: str | None
    place: str | None
    source: str | None
    layer: str | None
    pin: str
    live: bool
    locked: LockedModule | None
    public: bool = False  # whether its entry grants it every public host
    constraints: tuple[str, ...] = ()  # on what it depends on, each with its place
    by_uv_lock: bool = False

    def as_dict(self) -> dict[str, object]:
        return {
            "module": self.name,
            "place": self.place,
            "kind": self.kind,
            "source": self.source,
            "layer": self.layer,
            "pin": self.pin,
            "live": self.live,
            "public": self.public,
            "constraints": list(self.constraints),
            "dependencies": "locked" if self.by_uv_lock else None,
            "locked": locked_facts(self.locked),
        }


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
    try:
        sources = read_modules(plan, working_dir)
        rows = list(_rows(sources, live=live))
    except Exception as error:  # the top of a command: an unforeseen error is reported here
        screen = Screen(sys.stderr, masked)
        shown = SourceFailedError.of(error) if isinstance(error, SourceError) else error
        screen.text(failure.text(shown))
        if as_json:
            print_json({"error": failure.as_dict(shown)}, masked)
        return failure.exit_code(shown)
    if as_json:
        facts = {
            "lock": str(sources.lock_path),
            "plan": str(sources.plan.origin) if sources.plan is not None else None,
            "modules": [row.as_dict() for row in rows],
            "unused": [one.source for one in sources.unused],
            "error": None,
        }
        print_json(facts, masked)
    else:
        _show(sources, rows)
    return 0


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
            row = _Row(entry.module, entry.kind, entry.path, entry.source, None, "none", False, None)
        else:
            row = _Row(entry.module, entry.kind, entry.path, None, None, "shipped", False, None)
        yield replace(row, public=reaches_the_web(entry.permissions))


def _row(module: SourcedModule, *, live: bool) -> _Row:
    return _Row(
        module.name,
        module.entry.kind if module.entry is not None else None,
        module.place,
        module.key,
        module.layer,
        module.uri.pin_word(module.locked.requested_kind if module.locked is not None else ""),
        live and isinstance(module.uri, FolderUri),
        module.locked,
        constraints=tuple(one.shown for one in module.rules.constraints),
        by_uv_lock=module.rules.by_uv_lock,
    )


def _show(sources: SourcedModules, rows: list[_Row]) -> None:
    screen = Screen(sys.stdout, masked)
    marks = [_marks(row) for row in rows]
    screen.listing(
        [
            (row.name, *([mark] if any(marks) else []), _state(row), _from(row))
            for row, mark in zip(rows, marks, strict=True)
        ]
    )
    for row in rows:
        if row.constraints:
            screen.note(f"{row.name}: its dependencies keep to {', '.join(row.constraints)}")
        if row.by_uv_lock:
            screen.note(f"{row.name}: its dependencies are those of its own uv.lock")
    for name, error in unresolved_failures(sources):
        screen.note(f"{name}: {error.summary}")
    if not rows:
        screen.note(f"nothing is locked in {sources.lock_path.parent}")
    for one in sources.unused:
        screen.note(f"locked, and of no module of this plan: {one.source}")


def _marks(row: _Row) -> str:
    return ", ".join((["LIVE"] if row.live else []) + (["ANY PUBLIC HOST"] if row.public else []))


def _from(row: _Row) -> str:
    """Return the source, unless it was shown already, and the setting that replaced the plan's."""
    return f"{row.source or ''}{f', by {row.layer}' if row.layer is not None else ''}"


def _state(row: _Row) -> str:
    if row.pin == "none":
        return "not found"
    if row.pin in ("shipped", "installed"):
        return row.pin
    if row.locked is None:
        return f"{row.pin}, not locked"
    made = f" of {date_text(row.locked.committed_at)}" if row.locked.committed_at else ""
    return f"{row.pin}, {pin_text(row.locked)}{made}"
