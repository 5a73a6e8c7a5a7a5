"""Check a plan before the first process of its session is started.

Every problem is found before anything runs, and several problems are one error. Nothing is imported and nothing started
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from paddock.errors import ModuleMissingError, PlanError, PlanProblem
from paddock.plan.model import ModuleEntry, MountPlan
from paddock_sources import Resolution

_SECTION: Final = {
    "orchestrator": "session.orchestrator",
    "context": "session.context",
    "provider": "providers",
    "tool": "tools",
    "hook": "hooks",
}


def check_working_dir(folder: Path) -> Path:
    """Return the absolute working directory of the modules.

    Raises:
        PlanError: there is no such folder.
    """
    resolved = folder.resolve()
    if not resolved.is_dir():
        raise PlanError(
            [PlanProblem("", f"the working directory `{folder}` is no folder", "create it, or name another")]
        )
    return resolved


def checked_resolutions(plan: MountPlan, found: Mapping[str, Resolution | ModuleMissingError]) -> dict[str, Resolution]:
    """Return where each entry's code is, by the entry's place in the plan.

    Raises:
        ModuleMissingError: one module's code is missing.
        PlanError: the code of several modules is missing, or a module declares another kind than its place requires.
    """
    resolutions: dict[str, Resolution] = {}
    missing: list[tuple[ModuleEntry, ModuleMissingError]] = []
    misplaced: list[PlanProblem] = []
    for entry in plan.entries():
        resolution = found[entry.path]
        if isinstance(resolution, ModuleMissingError):
            missing.append((entry, resolution))
            continue
        resolutions[entry.path] = resolution
        kind = resolution.declared_kind
        if kind is not None and kind != entry.kind:
            hint = f"list it under `{_SECTION[kind]}`" if kind in _SECTION else ""
            misplaced.append(PlanProblem(entry.path, f"`{entry.module}` is of kind {kind}, not {entry.kind}", hint))
    for entry, exc in missing:
        file, line = plan.positions.spot_of(entry.path)
        if file:  # of a bundle, of which the plan's own file shows nothing
            exc.detail = (*exc.detail, f"named at {file}:{line}")
    if len(missing) == 1 and not misplaced:
        raise missing[0][1]
    problems = [
        PlanProblem(entry.path, "; ".join([exc.summary, *exc.detail]), _in_a_row(exc.hints)) for entry, exc in missing
    ]
    if problems or misplaced:
        origin = str(plan.origin) if plan.origin is not None else None
        raise PlanError([*problems, *misplaced], origin=origin)
    return resolutions


def _in_a_row(hints: Iterable[str]) -> str:
    """Return alternatives as one text; a question among them ends a sentence."""
    text = ""
    for hint in hints:
        text += f"{' Or ' if text.endswith('?') else ', or '}{hint}" if text else hint
    return text
