"""Search one hierarchy, from our own group upwards, for the first group in which groups for workers can be made.

`/proc` lists the hierarchies and our place in them. A group of version 2 has the controllers that its parent passes on.
A group that passes any on may hold no processes itself, except the topmost of the machine. So a group with other
processes is left alone. A group that holds only this process and its children is vacated into a group below. In a
parent group that others share, a controller is switched on only if the group was delegated. All changes can be undone.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from paddock_sandbox.cgroup import files
from paddock_sandbox.cgroup.group import Advice, CgroupPlace, CgroupProblem, Controller

_OCTAL = re.compile(r"\\([0-7]{3})")


LEAF = "host-"
"""How the rest of the name begins, of a group that a host moved itself into."""

_ROUNDS = 10  # for children that were being started while their parents moved
Attempt = Callable[[CgroupPlace], None]


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy, the wanted controllers, and the folders of our own group and the topmost visible one."""

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
        with open(os.path.join(process, "cgroup"), encoding="utf-8", errors="surrogateescape") as lines:
            fields = [line.rstrip("\n").split(":", 2) for line in lines]
        members = [_Membership(frozenset(filter(None, names.split(","))), path) for _, names, path in fields]
        mounts = _mounts(process)
    except OSError as error:
        return [], [CgroupProblem.of(name, process, error) for name in sorted(wanted)]
    found: list[Hierarchy] = []
    problems: list[CgroupProblem] = []
    bound = {name for member in members for name in member.names}
    for member in members:
        # Version 2 has the controllers that version 1 has not taken; its groups show whether it really has them.
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
    # A path with `..` is a group outside of this process's cgroup namespace.
    if relative is None or ".." in relative.split("/"):
        return None
    return (mount.point + relative).rstrip("/")


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


class Subtree:
    """The groups in one group, and the controllers that it passes on to them."""

    def __init__(self, directory: str, prefix: str, *, is_own: bool) -> None:
        self.directory = directory
        self._prefix = prefix
        self._is_own = is_own
        self._switched_on: list[Controller] = []
        self._refused: dict[Controller, OSError] = {}
        self._leaf: str | None = None

    def pass_on(self, wanted: frozenset[Controller]) -> frozenset[Controller]:
        """Switch on the wanted controllers as far as possible; return those that are passed on.

        Raises:
            OSError: the group cannot be read.
        """
        available = wanted.intersection(files.read(self.directory, "cgroup.controllers").split())
        passed = available.intersection(files.read(self.directory, "cgroup.subtree_control").split())
        missing = sorted(available - passed)
        try:
            if not missing or not self._may_switch_on():
                return passed
        except OSError as error:
            self._refused = dict.fromkeys(missing, error)
            return passed
        for name in missing:
            try:
                files.write(self.directory, "cgroup.subtree_control", f"+{name}")
                self._switched_on.append(name)
            except OSError as error:
                self._refused[name] = error
        return passed.union(self._switched_on)

    def problem(self, controller: Controller) -> CgroupProblem:
        """Return why a controller is not passed on."""
        error = self._refused.get(controller)
        if error is None:
            return CgroupProblem(controller, os.path.join(self.directory, "cgroup.controllers"), "", "not passed on")
        return CgroupProblem.of(controller, self.directory, error)

    def put_back(self) -> None:
        """Undo these changes, as far as the kernel allows."""
        while self._switched_on:
            with suppress(OSError):  # another process began to use it; it needs the controller switched on as well
                files.write(self.directory, "cgroup.subtree_control", f"-{self._switched_on.pop()}")
        if self._leaf is not None:
            try:
                _move_all(self._leaf, self.directory)
                os.rmdir(self._leaf)
                self._leaf = None
            except OSError:
                pass  # where we are now is as good for us

    def _may_switch_on(self) -> bool:
        files.check_writable(self.directory, "cgroup.subtree_control")
        if not (self._is_own or _was_delegated(self.directory)):
            return False
        if not files.exists(self.directory, "cgroup.events"):  # only the machine's topmost group has none
            return True
        processes = files.processes(self.directory)
        if processes and not (self._is_own and all(map(_is_of_ours, processes))):
            raise OSError(errno.EBUSY, "it holds processes of others", os.path.join(self.directory, "cgroup.procs"))
        if processes:
            # Without delegation no group can be made: this fails, and nothing has moved.
            leaf = os.path.join(self.directory, f"{self._prefix}{LEAF}{os.urandom(4).hex()}")
            os.mkdir(leaf, 0o755)
            self._leaf = leaf
            _move_all(self.directory, leaf)
        return True


def _was_delegated(directory: str) -> bool:
    """Return whether a group was delegated to us; that root may change every group does not count."""
    for kind in ("user", "trusted"):  # systemd marks such groups so: in `trusted` before version 251, in `user` since
        with suppress(OSError):
            if os.getxattr(directory, f"{kind}.delegate") == b"1":
                return True
    return os.geteuid() != 0


def _move_all(source: str, target: str) -> None:
    for _ in range(_ROUNDS):
        processes = files.processes(source)
        if not processes:
            return
        for pid in processes:
            with suppress(ProcessLookupError):  # it ended meanwhile
                files.write(target, "cgroup.procs", pid)
    raise OSError(errno.EBUSY, "processes are started in it as fast as they are moved", source)


def _is_of_ours(pid: int) -> bool:
    """Return whether a process is this one or below it."""
    try:
        while pid > 1 and pid != os.getpid():
            stat = files.read(f"/proc/{pid}", "stat")
            pid = int(stat[stat.rindex(")") + 2 :].split()[1])
    except OSError:
        return False
    return pid == os.getpid()


@dataclass(slots=True)
class SearchOutcome:
    """The best place found, if any, and a problem for each missing controller."""

    place: CgroupPlace | None = None
    problems: list[CgroupProblem] = field(default_factory=list)


def search(hierarchy: Hierarchy, attempt: Attempt, prefix: str) -> SearchOutcome:
    """Return the nearest place that has all controllers, or else the nearest of those that have most.

    Controllers that were switched on in a group (see `Subtree`) stay on only in the chosen one.
    """
    around, name = os.path.split(hierarchy.own)
    if name.startswith(f"{prefix}{LEAF}"):  # this process has moved here before, and would move deeper each time
        hierarchy = replace(hierarchy, own=around)
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
    """Return the place for a group, or None; note the obstacle in `met`."""
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
