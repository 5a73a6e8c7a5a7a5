"""A path as a sandboxed module finds it: the mount that it is reached through, or why there is none.

The path has a name for the module and a real name; where a link leads from one to the other, the module needs to see
both. This file looks at what exists and changes nothing; it finds a possible grant by resolving the path as a grant
would be.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.plan.problems import NotAcceptedError
from paddock.policy.path_walk import GrantedPath
from paddock_sandbox.mounts import DEVICES, SHARED_FOLDERS, STAND_INS, TERMINALS
from paddock_sandbox.profile import Mount


@dataclass(frozen=True, slots=True)
class PathAccess:
    """Whether a module reaches a path, and why; `by` is the grant that lets it."""

    allowed: bool
    reason: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class ReachablePath:
    """A path: `named` is the module's name for it, `real` its target outside, `place` the one of them that it opens."""

    named: Path
    real: Path
    place: Path
    subject: ExplainedModule

    @classmethod
    def find(cls, target: str, subject: ExplainedModule) -> Self:
        """Return the path for a spelling as in a plan: absolute, in the working directory, or in the home as `~/…`."""
        spelled = subject.owner.expanded(target, subject.working_dir)
        real = Path(os.path.realpath(spelled))
        # With a `..` behind a link, only the kernel knows where it leads.
        named = real if ".." in spelled.parts else Path(os.path.normpath(spelled))
        place = real
        if subject.has_namespaces:
            mount = subject.mount_at(named)
            source = named if mount is None else Path(mount.source) / named.relative_to(mount.target)
            place = named if mount is None or Path(os.path.realpath(source)) == source else real
        return cls(named, real, place, subject)

    def standing(self, *, wants_write: bool) -> PathAccess | None:
        """Return whether the module may read the path, or also write to it; None if it may only read it."""
        mount = self.subject.mount_at(self.place)
        if mount is None:
            return self._unseen()
        if wants_write and not mount.writable:
            return None
        return self._unless_the_user_may_not(self._seen(mount, wants_write=wants_write), wants_write)

    def wanted(self, *, wants_write: bool) -> GrantedPath | None:
        """Return what to grant for the module to reach the path; None for no file.

        Raises:
            NotAcceptedError: it cannot be granted.
        """
        path = self.named
        if not os.path.lexists(path):
            if not wants_write:
                return None
            path = next(folder for folder in path.parents if folder.is_dir())
        return GrantedPath.resolve(self.subject.written_as(path), self.subject.working_dir, self.subject.owner)

    def _seen(self, mount: Mount, *, wants_write: bool) -> PathAccess:
        covering: dict[Path, str] = {}
        for family in ("write",) if wants_write else ("read", "write"):
            for written in getattr(self.subject.permissions, family):
                try:
                    granted = GrantedPath.resolve(written, self.subject.working_dir, self.subject.owner)
                except NotAcceptedError:
                    continue  # no longer the same file as when the module was confined
                if self.real.is_relative_to(granted.path):
                    covering.setdefault(granted.path, f"{family}: {written}")
        if covering:  # the innermost one counts: `.` alone does not open a `.git` in it, nor what is excluded
            path = max(covering, key=lambda one: len(one.parts))
            return PathAccess(True, self._that_is_there(f"it is in `{path}`"), covering[path])
        return PathAccess(True, self._that_is_there(f"`{mount.source}` is its own code, or part of what it runs from"))

    def _that_is_there(self, reason: str) -> str:
        return reason if os.path.lexists(self.real) else f"{reason}; there is no such file at present"

    def _unless_the_user_may_not(self, standing: PathAccess, wants_write: bool) -> PathAccess:
        # Root's workers give up root's right to pass everywhere, so a check as root would prove nothing.
        may = os.geteuid() == 0 or not self.real.exists() or os.access(self.real, os.W_OK if wants_write else os.R_OK)
        return (
            standing
            if may
            else PathAccess(False, f"the user who runs Paddock may not either, though {standing.reason}")
        )

    def _unseen(self) -> PathAccess:
        own = self._of_its_own()
        if own is not None:
            return own
        is_there = os.path.lexists(self.named)
        if is_there and self.named != self.real and self.subject.mount_at(self.real) is not None:
            return PathAccess(False, f"it is a link to `{self.real}`, and that is the only name it is seen under")
        exists = f"`{self.real}` exists outside" if is_there else "there is no such file outside either"
        private = self._private_folder()
        return PathAccess(
            False, f"no grant covers it; {exists}{f', and its `{private}` is its own' if private else ''}"
        )

    def _of_its_own(self) -> PathAccess | None:
        """Return the answer for places where a module has something of its own."""
        profile, named = self.subject.profile, self.named
        if str(named) in DEVICES:
            return PathAccess(True, "every module has it")
        if not self.subject.has_namespaces:
            return PathAccess(True, "it is its private folder") if self._private_folder() else None
        if named.is_relative_to("/proc"):
            what = "it has a /proc of its own, with its own processes"
            return PathAccess(named.is_relative_to("/proc/self"), what)
        if profile.has_terminals and (named.is_relative_to(TERMINALS) or str(named) == "/dev/ptmx"):
            return PathAccess(True, "it has terminals of its own")
        if named.is_relative_to("/dev"):
            return PathAccess(False, f"of devices it has only {', '.join(DEVICES)}")
        private = self._private_folder()
        if private and not os.path.lexists(Path(private, *named.relative_to(private).parts[:1])):
            return PathAccess(True, f"`{private}` is a private folder of its own")
        if str(named) in STAND_INS:
            return PathAccess(False, "it has a file of its own under that name, and does not see yours")
        return None

    def _private_folder(self) -> str | None:
        """Return the folder that the path is in, if the module has one of its own by that name."""
        shared = SHARED_FOLDERS if self.subject.profile.level == "ns" else ()
        return next((one for one in (self.subject.profile.scratch, *shared) if self.named.is_relative_to(one)), None)
