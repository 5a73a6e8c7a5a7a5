"""Explain the version of a package that a module depends on: `paddock why MODULE package NAME`.

It reads the plan and the lock file, runs nothing and sends no request, so it does not know whether there is a newer
version. `--json`: `{"module", "kind": "package", "target", "version", "constraints": [text with its place…],
"dependencies": "locked" or null, "contradicted", "lock", "plan", "error"}`. Exit codes: 0; 1 if no version is locked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.failure import masked
from paddock.cli.options import command_to_paste
from paddock.cli.sources.results import command_text, files_of, plan_to_name, read_modules
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock_sources.constraints import Constraint
from paddock_sources.kinds.package_uri import package_key
from paddock_sources.lock.locked_module import LockedDependency
from paddock_sources.similar_names import meant


@dataclass(frozen=True, slots=True)
class _LockedPackage:
    """A package as it is locked for a module, and the constraints on it."""

    sources: SourcedModules
    module: SourcedModule
    package: LockedDependency
    constraints: tuple[Constraint, ...]

    @property
    def is_contradicted(self) -> bool:
        return not all(one.allows(self.package.version) for one in self.constraints)


def run_package_answer(
    name: str,
    package: str,
    *,
    plan: Path | None,
    working_dir: Path | None,
    as_json: bool,
) -> int:
    """Explain the version, and return the exit code."""

    def work() -> CommandAnswer:
        found = _find(read_modules(plan, working_dir), name, package)
        facts = {
            "module": found.module.name,
            "kind": "package",
            "target": found.package.name,
            "version": found.package.version,
            "constraints": [one.shown for one in found.constraints],
            "dependencies": "locked" if found.module.rules.by_uv_lock else None,
            "contradicted": found.is_contradicted,
            **files_of(found.sources),
        }
        return CommandAnswer(facts, lambda screen: _show(found, screen))

    return CommandReport(Screen(sys.stderr, masked), as_json, masked, as_error=KindError.of_sources).answer(work)


def _find(sources: SourcedModules, name: str, package: str) -> _LockedPackage:
    """Return what is locked of the package for the module that goes by `name`.

    Raises:
        KindError: there is no such module, or nothing is locked.
    """
    by_place = ((one, (one.place, None if one.entry is None else one.entry.instance_id)) for one in sources.modules)
    module = next((one for one, named in by_place if name in named or one.is_meant_by(name, sources.folder)), None)
    if module is None:
        names = [entry.instance_id or entry.module for entry in sources.plan.entries()] if sources.plan else []
        known = list(dict.fromkeys([*names, *(one.name for one in sources.modules)]))
        if name in known:
            raise _nothing(f"`{name}` depends on no package that is locked")
        hint = meant(name, known, f"modules known: {', '.join(known) or 'none'}")
        place = f"plan `{sources.plan.origin}`" if sources.plan is not None else f"`{sources.lock_path}`"
        raise _nothing(f"there is no module `{name}` in {place}", hint)
    if module.locked is None:
        raise _nothing(f"nothing is locked for `{module.name}`", f"{command_text('lock', sources)} locks it")
    key = package_key(package)
    names = [one.name for one in module.locked.dependencies]
    dependency = next((one for one in module.locked.dependencies if package_key(one.name) == key), None)
    if dependency is None:
        hint = meant(package, names, f"locked for it: {', '.join(names) or 'no package'}")
        raise _nothing(f"no package `{package}` is locked for `{module.name}`", hint)
    constraints = tuple(one for one in module.rules.constraints if one.name == key)
    return _LockedPackage(sources, module, dependency, constraints)


def _nothing(summary: str, *hints: str) -> KindError:
    return KindError("NothingToExplainError", summary, hints=hints)


def _show(found: _LockedPackage, screen: Screen) -> None:
    screen.title(f"`{found.module.name}` has `{found.package.name}` {found.package.version}")
    screen.labelled([*_facts(found)])
    if found.is_contradicted:
        screen.note(f"the lock contradicts that; {command_text('lock', found.sources)} chooses the version again")
    elif not found.module.rules.by_uv_lock:
        within = " within the constraints" if found.constraints else ""
        plan = plan_to_name(found.sources)
        words = ["paddock", "update", found.module.name, "--packages", *([] if plan is None else ["--plan", str(plan)])]
        update = command_to_paste(words) or "`paddock update`"
        screen.note(f"{update} takes newer versions{within}, if what needs the package allows them")


def _facts(found: _LockedPackage) -> Iterator[tuple[str, str]]:
    if found.module.rules.by_uv_lock:
        yield "  chosen by  ", "the module's own uv.lock, since its entry says `dependencies: locked`"
    for one in found.constraints:
        yield "  bounded by  ", one.shown
    if not found.constraints:
        yield "  bounded by  ", "no constraint of a plan or of `sources.toml`"
    yield "  locked in  ", str(found.sources.lock_path)
