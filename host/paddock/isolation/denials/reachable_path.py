"""A path as a sandboxed module finds it: the mount that it is reached through, or why there is none.

The path has a name for the module and a real name; where a link leads from one to the other, the module needs to see
both. This file looks at what exists and changes nothing; it finds a possible grant by resolving the path as a grant
would be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.private_places import is_cover
from paddock.plan.problems import NotAcceptedError
from paddock.policy.path_walk import GrantedPath
from paddock_sandbox.mounts import DEVICES, SHARED_FOLDERS, STAND_INS, TERMINALS
from paddock_sandbox.profile import Mount

ONLY_READ: Final = "it may be read, and not written to"


@dataclass(frozen=True, slots=True)
class PathAccess:
    """Whether a module reaches a path, and why; `by` is the grant that lets it.

    `is_kept`: the path lies in a folder that the module may write to, and is left out of that. `is_covered`: another
    folder is shown in its place, by any grant.
    """

    allowed: bool
    reason: str
    by: str = ""
    is_kept: bool = False
    is_covered: bool = False


@dataclass(frozen=True, slots=True)
class ReachablePath:
    """A path: `named` is the module's name for it, `real` its target outside."""

    named: Path
    real: Path
    subject: ExplainedModule

    @classmethod
    def find(cls, target: str, subject: ExplainedModule) -> Self:
        """Return the path for a spelling as in a plan: absolute, in the working directory, or in the home as `~/…`."""
        spelled = subject.owner.expanded(target, subject.working_dir)
        real = Path(os.path.realpath(spelled))
        # With a `..` behind a link, only the kernel knows where it leads.
        named = real if ".." in spelled.parts else Path(os.path.normpath(spelled))
        return cls(named, real, subject)

    def standing(self, *, wants_write: bool) -> PathAccess:
        """Return whether the module may read the path, or also write to it."""
        mount = self._mount()
        if mount is None:
            return self._unseen()
        if (covered := _why_covered(mount)) is not None:
            return PathAccess(False, covered, is_covered=True)
        if not wants_write or mount.writable:
            return self._unless_the_user_may_not(self._seen(mount, wants_write=wants_write), wants_write)
        if any(outer.writable for outer in self._mounts_around(Path(mount.target))):
            return PathAccess(False, "it is kept as it is", is_kept=True)
        return PathAccess(False, ONLY_READ)

    def why_covered(self) -> str | None:
        """Return why no grant lets the module have what is there outside; None if one may. Nothing is looked up."""
        mount = self._deepest(self.named)
        return None if mount is None else _why_covered(mount)

    def is_around_writable(self) -> bool:
        """Whether the path lies in a writable folder of the module, and is left out of it."""
        return any(outer.writable for outer in self._mounts_around(self.named))

    def grantable_as(self, place: Path) -> tuple[str, str]:
        """Return the grant to write to a place, which exists and has no link in it, or why there is none."""
        written = self.subject.written_as(place)
        granted = GrantedPath(written, place, place, (), is_directory=True)
        try:
            granted.refuse_writing_to_the_system()
            self.subject.fixed.refuse(granted, by_mounts=self.subject.profile.level in LEVELS_WITH_NAMESPACES)
        except NotAcceptedError as error:
            return "", error.problem
        return written, ""

    def grantable(self, *, wants_write: bool) -> tuple[str, str]:
        """Return the grant by which the module reaches the path, or why there is none; neither for no file."""
        if not wants_write and not os.path.lexists(self.named):
            return "", ""
        path = self.named if os.path.lexists(self.named) else _nearest_folder(self.named)
        written = self.subject.written_as(path)
        try:
            granted = GrantedPath.resolve(written, self.subject.working_dir, self.subject.owner)
            if wants_write:
                granted.refuse_writing_to_the_system()
                self.subject.fixed.refuse(granted, by_mounts=self.subject.profile.level in LEVELS_WITH_NAMESPACES)
        except NotAcceptedError as error:
            return "", error.problem
        return written, ""

    def _mount(self) -> Mount | None:
        """Return the mount that the path is reached through; of several, the one that decides."""
        if self.subject.profile.level not in LEVELS_WITH_NAMESPACES:
            around = [mount for mount in self.subject.profile.mounts if self.real.is_relative_to(mount.source)]
            return max(around, key=lambda mount: mount.writable, default=None)  # rules of Landlock add up
        mount = self._deepest(self.named)
        if mount is None:
            return None
        place = Path(mount.source) / self.named.relative_to(mount.target)
        return mount if Path(os.path.realpath(place)) == place else self._deepest(self.real)

    def _deepest(self, path: Path) -> Mount | None:
        around = (mount for mount in self.subject.profile.mounts if path.is_relative_to(mount.target))
        return max(around, key=lambda mount: len(Path(mount.target).parts), default=None)

    def _mounts_around(self, place: Path) -> Iterable[Mount]:
        return (mount for mount in self.subject.profile.mounts if place.is_relative_to(mount.target))

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
        if is_there and self.named != self.real and self._deepest(self.real) is not None:
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
        if profile.level not in LEVELS_WITH_NAMESPACES:
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


def _why_covered(mount: Mount) -> str | None:
    """Return why no grant lets a module have what a mount covers; None if it covers nothing of Paddock's."""
    if not is_cover(mount):
        return None
    return f"it is in `{mount.target}`, which is Paddock's own: modules find an empty folder in its place"


def _nearest_folder(path: Path) -> Path:
    return next((folder for folder in path.parents if folder.is_dir()), Path("/"))
