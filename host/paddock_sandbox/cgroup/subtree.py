"""Have a group of version 2 pass controllers on to the groups in it.

A group of version 2 has the controllers that the group around it passes on, and one that passes any on may hold no
processes itself, except the topmost of the machine. So a group that others live in is left alone; one that holds only
this process and its children is vacated for a group below. In a group around our own, which others share, something is
switched on only if it was delegated. What was done can be put back.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace

from paddock_sandbox.cgroup import files
from paddock_sandbox.cgroup.hierarchy import Hierarchy
from paddock_sandbox.cgroup.place import CgroupProblem, Controller

_LEAF = "host-"
_ROUNDS = 10  # for children that were being started while their parents moved


class Subtree:
    """The groups in one group, and what it passes on to them."""

    def __init__(self, directory: str, prefix: str, *, is_own: bool) -> None:
        self.directory = directory
        self._prefix = prefix
        self._is_own = is_own
        self._switched_on: list[Controller] = []
        self._refused: dict[Controller, OSError] = {}
        self._leaf: str | None = None

    def pass_on(self, wanted: frozenset[Controller]) -> frozenset[Controller]:
        """Return those of the wanted controllers that are passed on, having switched on what can be.

        Raises:
            OSError: The group cannot be read.
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
        """Undo what was done here, as far as the kernel lets us."""
        while self._switched_on:
            try:
                files.write(self.directory, "cgroup.subtree_control", f"-{self._switched_on.pop()}")
            except OSError:
                pass  # somebody began to use it; on is also how they need it
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
            # Groups cannot be made where nobody delegated them; then this fails and nothing has moved.
            leaf = os.path.join(self.directory, f"{self._prefix}{_LEAF}{os.urandom(4).hex()}")
            os.mkdir(leaf, 0o755)
            self._leaf = leaf
            _move_all(self.directory, leaf)
        return True


def as_before_vacating(hierarchy: Hierarchy, prefix: str) -> Hierarchy:
    """Return the hierarchy as it was for this process before it moved, if it did: or it would move deeper each time."""
    around, name = os.path.split(hierarchy.own)
    return replace(hierarchy, own=around) if name.startswith(f"{prefix}{_LEAF}") else hierarchy


def _was_delegated(directory: str) -> bool:
    """Return whether somebody meant us to change a group: root may change every one, which means nothing."""
    return os.geteuid() != 0 or any(_has_attribute(directory, f"{kind}.delegate") for kind in ("user", "trusted"))


def _has_attribute(directory: str, name: str) -> bool:
    # As systemd marks what it delegates: in `trusted` before version 251, in `user` since.
    try:
        return os.getxattr(directory, name) == b"1"
    except OSError:
        return False


def _move_all(source: str, target: str) -> None:
    for _ in range(_ROUNDS):
        processes = files.processes(source)
        if not processes:
            return
        for pid in processes:
            try:
                files.write(target, "cgroup.procs", pid)
            except ProcessLookupError:
                pass  # it ended meanwhile
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
