"""A value together with the lines it came from, and how values of several bundles become one.

The rules are those of the public library: tables are merged, lists in them are joined with each value once, and a later
value of any other type wins. A list of modules is merged by the modules' names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.plan.source_map import SourceNode


@dataclass(frozen=True, slots=True)
class Traced:
    """A plain value, and the place it came from; that of a part is in the place's parts."""

    value: Any
    place: SourceNode

    def part(self, key: str | int) -> Traced:
        """Return the part under a key or index, which exists."""
        return Traced(self.value[key], self.place.parts.get(key, self.place))

    def parts(self) -> Iterable[tuple[Any, Traced]]:
        """Yield the parts of a table by their keys, or those of a list by their indices."""
        keys = self.value if isinstance(self.value, Mapping) else range(len(self.value))
        return ((key, self.part(key)) for key in keys)


def table(parts: Mapping[str, Traced], place: SourceNode) -> Traced:
    """Return the table of these parts."""
    values = {key: part.value for key, part in parts.items()}
    return Traced(values, SourceNode(place.line, {key: part.place for key, part in parts.items()}, place.file))


def sequence(parts: Iterable[Traced], place: SourceNode) -> Traced:
    """Return the list of these parts."""
    known = [*parts]
    places: dict[str | int, SourceNode] = {index: part.place for index, part in enumerate(known)}
    return Traced([part.value for part in known], SourceNode(place.line, places, place.file))


def merged(base: Traced, over: Traced) -> Traced:
    """Return both as one value, as far as they are of one type; else the later one."""
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        parts = dict(base.parts())
        for key, part in over.parts():
            parts[key] = merged(parts[key], part) if key in parts else part
        return table(parts, over.place)
    if isinstance(base.value, list) and isinstance(over.value, list):
        once: dict[str, Traced] = {}
        for _, part in (*base.parts(), *over.parts()):
            once.setdefault(json.dumps(part.value, sort_keys=True), part)
        return sequence(once.values(), over.place)
    return over


def merged_modules(base: Traced, over: Traced) -> Traced:
    """Return the entries of both lists of modules, those of one name merged; an entry without a name stays."""
    known: dict[Any, Traced] = {}
    for _, part in base.parts():
        known[_name_of(part) or id(part)] = part
    for _, part in over.parts():
        name = _name_of(part)
        known[name or id(part)] = merged(known[name], part) if name in known else part
    return sequence(known.values(), over.place)


def _name_of(entry: Traced) -> str | None:
    found = entry.value if isinstance(entry.value, dict) else {}
    name = found.get("instance_id") or found.get("module")
    return name if isinstance(name, str) else None
