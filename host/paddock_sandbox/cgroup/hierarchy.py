"""Read from `/proc` which hierarchies of groups there are, where they are mounted, and where in them we are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from paddock_sandbox.cgroup.place import Advice, CgroupProblem, Controller

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy and what is wanted of it: the folder of our own group, and the topmost that can be seen."""

    version: Literal[1, 2]
    controllers: frozenset[Controller]
    own: str
    top: str

    def upwards(self) -> Iterator[str]:
        """Yield our own folder and each around it, up to the topmost."""
        directory = self.own
        yield directory
        while directory != self.top:
            directory = os.path.dirname(directory)
            yield directory


@dataclass(frozen=True, slots=True)
class _Membership:
    """A line of `/proc/self/cgroup`: a hierarchy, by its controllers, none for version 2, and our group in it."""

    names: frozenset[str]
    path: str


@dataclass(frozen=True, slots=True)
class _Mount:
    """A line of `/proc/self/mountinfo`, of a cgroup file system."""

    root: str
    point: str
    writable: bool
    version: Literal[1, 2]
    options: frozenset[str]


def hierarchies(
    wanted: frozenset[Controller], process: str = "/proc/self"
) -> tuple[list[Hierarchy], list[CgroupProblem]]:
    """Return the hierarchies that could have the wanted controllers, and a problem for each without one."""
    try:
        members = _memberships(process)
        mounts = _mounts(process)
    except OSError as error:
        return [], [CgroupProblem.of(name, process, error) for name in sorted(wanted)]
    found: list[Hierarchy] = []
    problems: list[CgroupProblem] = []
    bound = {name for member in members for name in member.names}
    for member in members:
        # Version 2 has what version 1 has not taken; whether it really does is seen in its groups.
        controllers = wanted & member.names if member.names else wanted - bound
        if not controllers:
            continue
        outcome = _locate(member, mounts, controllers)
        if isinstance(outcome, Hierarchy):
            found.append(outcome)
        else:
            problems += [CgroupProblem(name, "", "", outcome) for name in sorted(controllers)]
    named = {name for hierarchy in found for name in hierarchy.controllers} | {each.controller for each in problems}
    problems += [CgroupProblem(name, "", "", "not mounted") for name in sorted(wanted - named)]
    return found, problems


def _locate(member: _Membership, mounts: list[_Mount], controllers: frozenset[Controller]) -> Hierarchy | Advice:
    version: Literal[1, 2] = 1 if member.names else 2
    of_it = [mount for mount in mounts if mount.version == version and (version == 2 or member.names & mount.options)]
    if not of_it:
        return "not mounted"
    # A later mount may lie over an earlier one; a writable one serves us best.
    of_it.sort(key=lambda mount: mount.writable)
    for mount in reversed(of_it):
        own = _seen_through(mount, member.path)
        if own is not None:
            return Hierarchy(version, controllers, own, mount.point)
    return "not visible"


def _seen_through(mount: _Mount, path: str) -> str | None:
    """Return the folder in which a group is seen through a mount of its hierarchy, or of a part of it."""
    root = mount.root.rstrip("/")
    relative = path[len(root) :] if path == root or path.startswith(f"{root}/") else None
    # With `..` a group is told that lies outside of this process's namespace of groups.
    if relative is None or ".." in relative.split("/"):
        return None
    return (mount.point + relative).rstrip("/")


def _memberships(process: str) -> list[_Membership]:
    with open(os.path.join(process, "cgroup"), encoding="utf-8", errors="surrogateescape") as lines:
        fields = [line.rstrip("\n").split(":", 2) for line in lines]
    return [_Membership(frozenset(filter(None, names.split(","))), path) for _, names, path in fields]


def _mounts(process: str) -> list[_Mount]:
    mounts = []
    with open(os.path.join(process, "mountinfo"), encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            place, _, source = line.rstrip("\n").partition(" - ")
            kind = source.split(" ", 1)[0]
            if kind in ("cgroup", "cgroup2"):
                _, _, _, root, point, own, *_ = place.split(" ")
                options = frozenset(source.split(" ")[-1].split(","))
                writable = "rw" in own.split(",") and "rw" in options
                mounts.append(_Mount(_plain(root), _plain(point), writable, 2 if kind == "cgroup2" else 1, options))
    return mounts


def _plain(path: str) -> str:
    """Return a path of `/proc/self/mountinfo` without its escapes."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), path)
