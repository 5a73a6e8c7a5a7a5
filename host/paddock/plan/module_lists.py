"""Lists of modules in a plan and in its agents: which entries of two lists are of the same module.

Those are told by the module and the name of its instance; of a module that is listed several times, the first entry of
one list goes with the first of the other, and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paddock.plan.model import ModuleEntry


def over(base: Sequence[ModuleEntry], own: Sequence[ModuleEntry]) -> tuple[ModuleEntry, ...]:
    """Return the entries of an agent's list, each put over the plan's entry of the same module, if there is one."""
    known = dict(zip(_keys(base), base, strict=True))
    return tuple(entry.over(known[key]) if key in known else entry for key, entry in zip(_keys(own), own, strict=True))


def placed(base: Sequence[ModuleEntry], own: Sequence[ModuleEntry]) -> tuple[ModuleEntry, ...]:
    """Return the plan's list with an agent's entries in the places of those they stand in for, and then the others."""
    mine = dict(zip(_keys(own), own, strict=True))
    kept = [mine.pop(key, entry) for key, entry in zip(_keys(base), base, strict=True)]
    return (*kept, *mine.values())


def _keys(entries: Sequence[ModuleEntry]) -> list[tuple[str, str | None, int]]:
    seen: Counter[tuple[str, str | None]] = Counter()
    keys = []
    for entry in entries:
        key = (entry.module, entry.instance_id)
        keys.append((*key, seen[key]))
        seen[key] += 1
    return keys
