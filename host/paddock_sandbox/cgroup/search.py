"""Search one hierarchy, from our own group upwards, for the first group in which others can be made for workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paddock_sandbox.cgroup.hierarchy import Hierarchy
from paddock_sandbox.cgroup.place import CgroupPlace, CgroupProblem, Controller
from paddock_sandbox.cgroup.subtree import Subtree, as_before_vacating

Attempt = Callable[[CgroupPlace], None]
"""Returns if groups can be made at a place, and raises OSError if not."""


@dataclass(slots=True)
class SearchOutcome:
    """The best place found, if any, and a problem for each controller that cannot be had there."""

    place: CgroupPlace | None = None
    problems: list[CgroupProblem] = field(default_factory=list)


def search(hierarchy: Hierarchy, attempt: Attempt, prefix: str) -> SearchOutcome:
    """Return the nearest place that has all controllers, or else the nearest of those that have most.

    What had to be switched on in a group (see `Subtree`) stays on only in the one that is chosen.
    """
    hierarchy = as_before_vacating(hierarchy, prefix)
    chosen: Subtree | None = None
    place: CgroupPlace | None = None
    met: dict[Controller, CgroupProblem] = {}  # of each controller the one nearest to us
    for directory in hierarchy.upwards():
        subtree = Subtree(directory, prefix, is_own=directory == hierarchy.own)
        better = _try(hierarchy, subtree, attempt, met)
        if better is None or (place is not None and len(better.controllers) <= len(place.controllers)):
            subtree.put_back()
            continue
        if chosen is not None:
            chosen.put_back()
        chosen, place = subtree, better
        if place.controllers == hierarchy.controllers:
            break
    had = place.controllers if place is not None else frozenset()
    return SearchOutcome(place, [problem for name, problem in sorted(met.items()) if name not in had])


def _try(
    hierarchy: Hierarchy, subtree: Subtree, attempt: Attempt, met: dict[Controller, CgroupProblem]
) -> CgroupPlace | None:
    """Return the place that a group is, or None; note in `met` what stood in the way."""
    wanted = hierarchy.controllers
    try:
        if hierarchy.version == 1:
            usable = wanted  # in version 1 every group of a hierarchy has its controllers
        else:
            usable = subtree.pass_on(wanted)
            for name in wanted - usable:
                met.setdefault(name, subtree.problem(name))
        if not usable:
            return None
        place = CgroupPlace(hierarchy.version, subtree.directory, usable)
        attempt(place)
    except OSError as error:
        for name in wanted:
            met.setdefault(name, CgroupProblem.of(name, subtree.directory, error))
        return None
    return place
