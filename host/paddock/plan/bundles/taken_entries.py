"""Entries of modules as a plan takes them over from a bundle: which code, and its configuration, and no grants.

Permissions, limits and isolation that a bundle names are what its author proposes: only a plan gives them. A source
that is relative to the bundle's file becomes an address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paddock.errors import PlanProblem
from paddock.plan.bundles.traced import Traced, sequence, table
from paddock.plan.bundles.tree_path import TreePath
from paddock.plan.entry_reading import SECTIONS, SESSION_KEYS
from paddock.plan.model import ENTRY_KEYS
from paddock.plan.problems import NotAcceptedError, must_be
from paddock_sources.similar_names import near

MODULES: Final = tuple(SECTIONS)
_KEYS: Final = ("bundle", "includes", "session", "spawn", *MODULES, "agents", "context")
_KEPT: Final = ("module", "source", "config", "instance_id")
_OF_PLANS: Final = tuple(key for key in ENTRY_KEYS if key not in _KEPT)


def taken_over(content: Traced, folder: TreePath, problems: list[PlanProblem], path: str = "") -> Traced:
    """Return the table of a bundle or an agent at `path`, whose file is in `folder`, with what a plan takes over.

    What is wrong with its lists of modules and their sources is added to `problems`.
    """
    parts = dict(content.parts())
    for key in MODULES:
        if key in parts:
            parts[key] = _entries(parts[key], folder, problems, _below(path, key))
    session = parts.get("session")
    if session is not None and isinstance(session.value, dict):
        inner = {key: part for key, part in session.parts() if key in SESSION_KEYS}
        for key, part in inner.items():
            if key in ("orchestrator", "context") and isinstance(part.value, dict):
                inner[key] = _entry(part, folder, problems, _below(path, "session", key))
            elif key.endswith("_source"):
                inner[key] = _source(part, folder, problems, _below(path, "session", key))
        parts["session"] = table(inner, session.place)
    return table(parts, content.place)


def proposals(content: Traced) -> Iterator[tuple[str, str]]:
    """Yield the module and the key of each thing in a bundle's entries that a plan does not take over."""
    for key in MODULES:
        entries = content.value.get(key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("module"), str):
                yield from ((entry["module"], one) for one in entry if one in _OF_PLANS)


def strays(content: Traced) -> Iterator[str]:
    """Yield notes about keys of a bundle and its entries that are none, and like one that is."""
    yield from _strays(content, _KEYS)
    for key in MODULES:
        if isinstance(content.value.get(key), list):
            for _, entry in content.part(key).parts():
                yield from _strays(entry, (*ENTRY_KEYS, "id"))


def _strays(part: Traced, known: Sequence[str]) -> Iterator[str]:
    for key in part.value if isinstance(part.value, dict) else ():
        close = near(key, known) if isinstance(key, str) and key not in known else ()
        if close:
            place = part.part(key).place
            yield f"{place.file}:{place.line}: `{key}` is ignored; did you mean `{close[0]}`?"


def _entries(entries: Traced, folder: TreePath, problems: list[PlanProblem], path: str) -> Traced:
    if not isinstance(entries.value, list):
        problems.append(must_be("a list", entries.value, path, "write one `- module: <id>` for each"))
        return Traced([], entries.place)
    taken = (_entry(part, folder, problems, f"{path}[{index}]") for index, part in entries.parts())
    return sequence(taken, entries.place)


def _entry(entry: Traced, folder: TreePath, problems: list[PlanProblem], path: str) -> Traced:
    if not isinstance(entry.value, dict):
        problems.append(must_be("a table", entry.value, path, "write `module: <id>`"))
        return Traced({}, entry.place)
    if "module" not in entry.value:
        close = near("module", [key for key in entry.value if isinstance(key, str)])
        problems += [PlanProblem(path, f"`{key}` is no key of a module", "did you mean `module`?") for key in close]
    parts = {key: part for key, part in entry.parts() if key in _KEPT}
    if isinstance(entry.value.get("id"), str) and entry.value["id"] != entry.value.get("module"):
        parts.setdefault("instance_id", entry.part("id"))
    if "source" in parts:
        parts["source"] = _source(parts["source"], folder, problems, f"{path}.source")
    return table(parts, entry.place)


def _source(source: Traced, folder: TreePath, problems: list[PlanProblem], path: str) -> Traced:
    if not isinstance(source.value, str) or not source.value.startswith(("./", "../")):
        return source
    try:
        return Traced(folder.joined(source.value).text, source.place)
    except NotAcceptedError as error:
        problems.append(PlanProblem(path, error.problem, error.accepted))
        return source


def _below(path: str, *keys: str) -> str:
    return ".".join([*([path] if path else []), *keys])
