"""Which of a module's grants served it: what the host sees, and what the module itself says.

A grant goes by its family and its place among the grants of that family, so that a record of its use is short and
repeats no text. The host sees connections, keys, calls, events and mounts. Files and programs are the word of the
module's own Python, which sees neither what its programs open nor what they start. Nobody sees which variables and
handed-over secrets are read, and whether a module's own loopback is used. What was not seen used may be used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from paddock.plan.families import FAMILIES as TABLE
from paddock.plan.families import is_exclusion
from paddock.plan.net_rule import SELF
from paddock.plan.permissions import FAMILIES, Permissions, grants_of

GrantState = Literal["used", "not seen used", "not known", "excludes"]
SEEN_BY_HOST: Final = tuple(family for family, row in TABLE.items() if row.seen_by == "host")
SEEN_BY_MODULE: Final = tuple(family for family, row in TABLE.items() if row.seen_by == "module")
MOST: Final = 64
"""The first so many grants of a family are watched; nothing is said of later ones."""

_KNOWN: Final = 256  # targets whose grants are remembered; a module may invent any number of events


class GrantUse:
    """The use of one module's grants, by family, in all its lives."""

    def __init__(self, permissions: Permissions) -> None:
        self._granted = grants_of(permissions)
        self._used: dict[str, set[int]] = {}
        self._places = lru_cache(_KNOWN)(self._matching)

    def note(self, family: str, target: str) -> None:
        """Note that the grants of a family which match a target served it."""
        self._note(family, self._places(family, target))

    def note_written(self, family: str, written: Collection[str]) -> None:
        """Note that the grants of a family in these words served it, or secrets of these names."""
        granted = getattr(self._granted, family)[:MOST]
        names = (grant.name if family == "secrets" else grant for grant in granted)
        self._note(family, (place for place, name in enumerate(names) if name in written))

    def _note(self, family: str, places: Iterable[int]) -> None:
        self._used.setdefault(family, set()).update(places)

    def _matching(self, family: str, target: str) -> tuple[int, ...]:
        granted = getattr(self._granted, family)[:MOST]
        return tuple(place for place, grant in enumerate(granted) if TABLE[family].serves(grant, target))

    def as_dict(self) -> dict[str, list[int]]:
        """Return the places of the grants that served it, by family."""
        return {family: sorted(places) for family, places in self._used.items() if places}


def states_of(
    permissions: Permissions, used: Mapping[str, Collection[int]], unseen: Collection[str]
) -> Iterator[tuple[str, Any, GrantState]]:
    """Yield each grant of a module after its family, and whether it served.

    `used` are the places of used grants by family. Nothing is said of `unseen` families, nor of what nobody sees.
    """
    granted = grants_of(permissions)
    for family in FAMILIES:
        for place, grant in enumerate(getattr(granted, family)):
            if family == "read" and is_exclusion(grant):
                yield family, grant, "excludes"
            elif place in used.get(family, ()):
                yield family, grant, "used"
            elif place < MOST and family not in unseen and _can_be_seen(family, grant):
                yield family, grant, "not seen used"
            else:
                yield family, grant, "not known"


def _can_be_seen(family: str, grant: Any) -> bool:
    if family == "secrets":
        return grant.inject is not None
    return family in (*SEEN_BY_HOST, *SEEN_BY_MODULE) and (family, grant) != ("net", SELF)
