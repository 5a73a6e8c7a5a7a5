"""Put a plan over the bundles that it `extends`: the table of the whole, and the lines of all files that it came from.

The bundles come first, in the order in which the plan names them, then the plan itself; a later value wins, and the
plan's own instruction replaces theirs. Nothing is fetched here: `PinnedTrees` has the files.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from paddock.errors import PlanError, PlanProblem, placed
from paddock.plan import EXTENDS
from paddock.plan.bundles.bundle_file import Named
from paddock.plan.bundles.composition import Composed, Composition, Wanted
from paddock.plan.bundles.mentions import instruction_of, text_of_agent
from paddock.plan.bundles.taken_entries import MODULES
from paddock.plan.bundles.traced import Traced, merged, merged_modules, table
from paddock.plan.bundles.trees import PinnedTrees
from paddock.plan.model import Bundles
from paddock.plan.problems import NotAcceptedError, must_be, path_text
from paddock.plan.source_map import Positions, SourceNode
from paddock_sources import SourceUriError, parse_source

_MAX_BYTES: Final = 1 << 20  # of one file, as of a plan
_MISSING: Final = "missing"
_SKIP: Final = "skip"
_MERGED: Final = ("session", "spawn", "agents")
_USUAL: Final = {"orchestrator": "loop-streaming", "context": "context-simple"}  # many bundles only add to another one


@dataclass(frozen=True, slots=True)
class Extended:
    """A plan with its bundles: a table as a plan has it, its lines, a digest of all that was read, and notes."""

    content: dict[str, Any]
    positions: Positions
    bundles: Bundles
    digest: str
    notes: tuple[str, ...]


def extended(raw: Mapping[str, Any], positions: Positions, base: Path, trees: PinnedTrees) -> Extended:
    """Return the plan `raw` with the bundles that it extends; relative addresses start at `base`.

    Raises:
        PlanError: a bundle cannot be had, or is none; the error names its file and line.
    """
    plan = Traced({key: value for key, value in raw.items() if key not in (EXTENDS, _MISSING)}, positions.root)
    if raw.get(_MISSING, _SKIP) != _SKIP:
        problem = must_be(f"`{_SKIP}`", raw[_MISSING], _MISSING, "leave it out, and what is missing is an error")
        raise PlanError([placed(problem, "", positions.line_of(_MISSING))])
    composition = Composition(_addresses(raw[EXTENDS], positions, base), skips=_MISSING in raw)
    notes = []
    while wanted := composition.missing():
        for one in wanted:
            try:
                composition.take(one, _found(one, trees, positions.file))
            except PlanError as error:
                if not composition.leave_out(one):
                    raise
                notes += [f"left out, as it cannot be had: {problem.describe()}" for problem in error.problems]
    composed = composition.result()
    session = raw.get("session")
    if isinstance(session, Mapping) and session.get("instruction"):
        composed = replace(composed, instruction=None)
    own = dict(composed.content.parts())
    notes += [f"left out, as no bundle of its namespace is there: {name}" for name in composition.strange]
    notes += _notes(composed)
    if "agents" in own:
        own["agents"] = _agents(own["agents"], composed, trees, notes)
    whole = table({key: part for key, part in own.items() if part.value}, plan.place)
    try:
        told = instruction_of(composed, trees)
    except NotAcceptedError as error:
        raise PlanError([PlanProblem(EXTENDS, error.problem, error.accepted)]) from error
    content = _with_session(_over(whole, plan), notes)
    bundles = Bundles(
        tuple((one.name, one.at.text) for one in composed.bundles),
        composed.instruction.text if composed.instruction is not None else "",
        told,
        {name: at.text for name, at in composed.context.items()},
        {name: (trees.place_of(root), not root.is_local) for name, root in composed.roots.items()},
        composed.instruction.at.text if composed.instruction is not None else "",
    )
    lines = Positions(positions.file, lambda: content.place)
    return Extended(content.value, lines, bundles, trees.digest, tuple(dict.fromkeys((*notes, *told.notes))))


def _addresses(written: object, positions: Positions, base: Path) -> list[Named]:
    """Return the bundles that a plan names, each as an absolute address or a well-known name."""
    several = written if isinstance(written, list) else [written]
    found = []
    for index, text in enumerate(several):
        path = path_text(EXTENDS, index) if isinstance(written, list) else EXTENDS
        if not isinstance(text, str) or not text.strip():
            hint = "write the address of a bundle, or a list of them"
            raise PlanError([placed(must_be("text", text, path, hint), "", positions.line_of(path))])
        place = SourceNode(positions.line_of(path) or 1, file=positions.file)
        try:
            is_name = "/" not in text and not text.startswith(".")
            found.append(Named(text if is_name else parse_source(text).anchored(base).text, place))
        except SourceUriError as error:
            problem = f"`{text}` is no address of a bundle: {error.problem}"
            raise PlanError([PlanProblem(path, problem, "; ".join(error.hints), place.line)]) from error
    if not found:
        raise PlanError([PlanProblem(EXTENDS, "names no bundle", "leave it out", positions.line_of(EXTENDS))])
    return found


def _found(wanted: Wanted, trees: PinnedTrees, plan: str) -> tuple[str, str] | None:
    try:
        return trees.find(wanted, _MAX_BYTES)
    except NotAcceptedError as error:
        place = wanted.asked_by or SourceNode(1, file=plan)
        hint = error.accepted or f"`{shlex.join(['paddock', 'lock', plan])}` fetches and pins it"
        raise PlanError([PlanProblem("", error.problem, hint, place.line, file=place.file)]) from error


def _agents(agents: Traced, composed: Composed, trees: PinnedTrees, notes: list[str]) -> Traced:
    """Return the agents, the instruction of each with what it mentions."""
    parts = dict(agents.parts())
    for name, agent in parts.items():
        text = agent.value.get("instruction")
        if isinstance(text, str) and text.strip():
            told = text_of_agent(name, text, composed, trees)
            notes += told.notes
            inner = {**dict(agent.parts()), "instruction": Traced(told.text, agent.part("instruction").place)}
            parts[name] = table(inner, agent.place)
    return table(parts, agents.place)


def _over(base: Traced, plan: Traced) -> Traced:
    """Return the plan's table over that of its bundles."""
    parts = dict(base.parts())
    for key, part in plan.parts():
        if key in parts and key in (*MODULES, *_MERGED) and isinstance(part.value, type(parts[key].value)):
            part = (merged_modules if key in MODULES else merged)(parts[key], part)
        parts[key] = part
    return table(parts, plan.place)


def _with_session(content: Traced, notes: list[str]) -> Traced:
    """Return a plan that has the usual orchestrator and context where neither it nor a bundle names one."""
    session = content.value.get("session") or {}
    if not isinstance(session, dict):
        return content
    usual = {key: module for key, module in _USUAL.items() if not session.get(key)}
    notes += (f"no bundle names a `session.{key}`: `{module}` is in its place" for key, module in usual.items())
    return merged(content, Traced({"session": usual}, content.place)) if usual else content


def _notes(composed: Composed) -> list[str]:
    """Return what of the bundles has no effect: what their authors would have modules granted, and circles."""
    proposed = sorted({(key, module) for one in composed.bundles for module, key in one.proposed})
    notes = [
        f"a bundle names `{key}` for {', '.join(module for _, module in some)}, and only a plan gives that"
        for key, some in groupby(proposed, key=lambda one: one[0])
    ]
    circles = (f"`{one.text}` at {one.place.file}:{one.place.line} would include itself" for one in composed.left_out)
    notes += [note for one in composed.bundles for note in one.notes]
    notes += dict.fromkeys(f"{circle}, and is left out there" for circle in circles)
    others = (other for one in composed.bundles for other in one.passed_over)
    return [*notes, *(f"{one.place.file}:{one.place.line} includes {one.text}, which is no `bundle`" for one in others)]
