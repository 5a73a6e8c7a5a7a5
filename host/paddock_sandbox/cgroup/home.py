"""Find where this process may make groups for its workers.

The search tries it, because neither permissions nor the hierarchy's files predict it reliably.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from paddock_sandbox.cgroup.group import CONTROLLERS, Cgroup, CgroupPlace, CgroupProblem, Controller
from paddock_sandbox.cgroup.search import LEAF, hierarchies, search

_MEMORY_BYTES = 64 << 20  # several times what the idle process needs
_TASKS = 8
_SHARE = 0.5

_IDLE = "import sys; sys.stdin.buffer.read()"  # until the pipe closes, as it does however this process ends


# Whose group it is: a process number, and the namespace in which it is one.
_OURS = re.compile(r"paddock-(?P<pid>[1-9][0-9]*)-(?P<namespace>[0-9]+)-")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class GroupTrial:
    """Tries places with one idle process, started when first needed; as a context, leaves neither it nor a group."""

    def __init__(self, prefix: str) -> None:
        self._name = f"{prefix}trial-{os.urandom(4).hex()}"
        self._groups: list[Cgroup] = []
        self._idle: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> GroupTrial:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, then remove the groups it was in."""
        if self._idle is not None:
            with self._idle:  # closes its pipe and waits for its end
                self._idle.kill()
        for group in self._groups:
            group.remove()

    def __call__(self, place: CgroupPlace) -> None:
        """Return if groups with the place's controllers can be made there.

        Raises:
            OSError: they cannot.
        """
        group = Cgroup.make([place], self._name)
        try:
            group.limit(
                _MEMORY_BYTES if "memory" in place.controllers else None,
                _TASKS if "pids" in place.controllers else None,
                _SHARE if "cpu" in place.controllers else None,
            )
            group.place(self._process().pid)
        except BaseException:
            group.remove()
            raise
        # It cannot be removed while the process is in it.
        self._groups.append(group)

    def _process(self) -> subprocess.Popen[bytes]:
        if self._idle is None:
            self._idle = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-I", "-S", "-c", _IDLE],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return self._idle


@dataclass(frozen=True, slots=True)
class GroupOwner:
    """The host that groups are made for: its number, and the namespace of processes in which it has that."""

    pid: int
    namespace: int

    @classmethod
    def here(cls) -> GroupOwner:
        """Return the calling process."""
        try:
            namespace = os.stat("/proc/self/ns/pid").st_ino
        except OSError:
            namespace = 0
        return cls(os.getpid(), namespace)

    @property
    def prefix(self) -> str:
        """How the names of its groups begin."""
        return f"paddock-{self.pid}-{self.namespace}-"


@dataclass(frozen=True, slots=True)
class CgroupHome:
    """The groups in which others can be made, one in each hierarchy of use, and why a controller is missing.

    `branch` is in the names of all that are made here, where not all of a host's groups are one maker's.
    """

    places: tuple[CgroupPlace, ...] = ()
    problems: tuple[CgroupProblem, ...] = ()
    owner: GroupOwner = field(default_factory=GroupOwner.here)
    branch: str = ""

    @property
    def counts_memory(self) -> bool:
        """Whether the memory of the groups made here is counted."""
        return any("memory" in place.controllers for place in self.places)

    @classmethod
    def find(cls) -> CgroupHome:
        """Try where groups can be made for children of this process; never raises.

        Starts and ends an idle process where one is needed to try with, and leaves nothing behind, with one exception:
        a process that is alone with its children in a group of version 2 moves them and itself into a group below,
        because that is the only way to have limits there. Takes some 30 ms.
        """
        owner = GroupOwner.here()
        found, problems = hierarchies(frozenset(CONTROLLERS))
        places: list[CgroupPlace] = []
        with GroupTrial(owner.prefix) as trial:
            for hierarchy in found:
                outcome = search(hierarchy, trial, owner.prefix)
                places += [outcome.place] if outcome.place is not None else []
                problems += outcome.problems
        return cls(tuple(places), tuple(sorted(problems, key=lambda problem: problem.controller)), owner)

    @property
    def controllers(self) -> frozenset[Controller]:
        """The resources that groups made here can limit."""
        return frozenset(name for place in self.places for name in place.controllers)

    def for_one_maker(self) -> CgroupHome:
        """Return a home in the same places, whose groups `remove_empty` can distinguish from all others."""
        return replace(self, branch=f"{_unique()}-")

    def create(self, name: str) -> Cgroup:
        """Make a group, without limits; its folder's unique name begins `paddock-<pid>-` with the finder's pid.

        Raises:
            OSError: it could not be made; then none of its folders is left.
            ValueError: the name could not be part of a folder's.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be part of a control group's name")
        return Cgroup.make(self.places, f"{self.owner.prefix}{name}-{self.branch}{_unique()}")

    def of_this_user(self) -> Iterator[Cgroup]:
        """Yield the groups that hosts of this user, this one among them, made for workers in the same places."""
        for name in {name for place in self.places for name in _names_in(place)}:
            match, group = _OURS.match(name), Cgroup.found(self.places, name)
            if match is not None and not name[match.end() :].startswith(LEAF):
                if all(map(_is_of_this_user, group.parts)):
                    yield group

    def remove_stale(self) -> None:
        """Remove the empty groups of dead hosts.

        It cannot be known whether a host of another PID namespace is dead, so its groups stay. So do the groups of a
        host whose pid was given to another process, until that process ends.
        """
        for place in self.places:
            for name in _names_in(place):
                match = _OURS.match(name)
                if match and int(match["namespace"]) == self.owner.namespace and not _lives(int(match["pid"])):
                    with suppress(OSError):  # still in use, or another host was quicker
                        os.rmdir(os.path.join(place.directory, name))

    def remove_empty(self, but: Collection[str] = (), within: float = 1.0) -> bool:
        """Remove the groups that this home's one maker left; return whether all but the named are gone.

        For when the maker is dead. Waits so many seconds for the last process in each to end.

        Raises:
            OSError: one may not be removed at all.
        """
        left = {
            name
            for place in self.places
            for name in _names_in(place)
            if name.startswith(self.owner.prefix) and f"-{self.branch}" in name and name not in but
        }
        gone = [Cgroup.found(self.places, name).remove(within) for name in left]
        return all(gone)

    def as_dict(self) -> dict[str, object]:
        """Return the home as plain data."""
        return {
            "places": [place.as_list() for place in self.places],
            "problems": [
                [problem.controller, problem.tried, problem.error, problem.advice] for problem in self.problems
            ],
            "owner": [self.owner.pid, self.owner.namespace],
            "branch": self.branch,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CgroupHome:
        """Rebuild a home from plain data; its groups still belong to the process that found it."""
        return cls(
            tuple(map(CgroupPlace.from_list, data["places"])),
            tuple(CgroupProblem(*problem) for problem in data["problems"]),
            GroupOwner(*data["owner"]),
            data["branch"],
        )


def _unique() -> str:
    return os.urandom(4).hex()


def _names_in(place: CgroupPlace) -> list[str]:
    try:
        return os.listdir(place.directory)
    except OSError:
        return []


def _is_of_this_user(place: CgroupPlace) -> bool:
    try:
        return os.stat(place.directory).st_uid == os.geteuid()
    except OSError:
        return False  # it is gone


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # another user's; no number of ours
    return True
