"""A path that a module named, followed in the host's tree within the module's grants, and not a step further.

Nothing outside is looked at: to look up a name may mount a file system, ask a server or wake a program of the user's,
and the module would have chosen which. A link inside a grant is read, and its target is taken as written. Each step is
taken from the folder before it, so that no link is followed that is put there meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from paddock.policy.path_walk import KERNEL_FOLDERS, PathWalk
from paddock_sandbox.profile import Mount

_MAX_NAMED: Final = 4096  # characters of a path, as the kernel has it; a walk takes the square of their number


@dataclass(frozen=True, slots=True)
class AttemptedPath:
    """The target of a path: `path` is its name after all links.

    `nearest` is its last existing part, known only where the path ends within a grant.
    """

    path: Path
    nearest: Path | None = None

    @property
    def is_there(self) -> bool:
        """Whether it was looked at, and exists."""
        return self.nearest == self.path

    @classmethod
    def follow(cls, named: Path, mounts: Iterable[Mount]) -> AttemptedPath | None:
        """Follow an absolute path; None for one that ends with the kernel, or nowhere."""
        walk = _Walk(named, {mount.target: mount.source for mount in mounts})
        try:
            return walk.follow()
        finally:
            walk.leave(0)


def open_within(folder: Path, named: str) -> int | None:
    """Open a plain file in `folder` for reading, by a path from an untrusted source; None for anything else.

    `folder` has no link in its path. No name outside of it is looked up, also through links that are put in it
    meanwhile, and nothing but a plain file is opened.
    """
    if len(named) > _MAX_NAMED:
        return None
    walk = _Walk(folder / named, {str(folder): str(folder)})
    try:
        return walk.open()
    finally:
        walk.leave(0)


class _Level(NamedTuple):
    """A name on the way: whether it is within a grant, and an open descriptor where it also exists."""

    is_granted: bool = False
    opened: int | None = None


class _Walk(PathWalk[_Level]):
    """A walk along a path in the host's tree, which does not look at anything that `sources` do not grant."""

    def __init__(self, named: Path, sources: Mapping[str, str]) -> None:
        super().__init__(named, _Level())
        self._sources = sources

    def follow(self) -> AttemptedPath | None:
        for name in self:
            place = "/" + "/".join([*self.names, name])
            if place in KERNEL_FOLDERS:
                return None
            self.enter(name, self._look_at(name, place))
            leads = self._link()
            if leads is None:
                continue
            if not self.may_follow:
                return None
            self.leave(len(self.names) - 1)
            self.go_to(leads)
        entered = self.levels[1:]
        there = sum(level.opened is not None for level in entered)
        outside = sum(not level.is_granted for level in entered)
        nearest = Path("/", *self.names[: outside + there]) if self.levels[-1].is_granted else None
        return AttemptedPath(self.path, nearest)

    def open(self) -> int | None:
        """Follow the path and open its target, a plain file in a grant, for reading; None for anything else."""
        if self.follow() is None or (found := self.levels[-1].opened) is None:
            return None
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(found).st_mode):
                # The file that was found, also if another file has its name by now.
                return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return None

    def leave(self, kept: int) -> None:
        for level in self.levels[max(kept, 0) + 1 :]:
            if level.opened is not None:
                os.close(level.opened)
        super().leave(kept)

    def _look_at(self, name: str, place: str) -> _Level:
        source, folder = self._sources.get(place), self.levels[-1]
        opened = None
        with suppress(OSError, ValueError):
            if source is not None:
                opened = os.open(source, os.O_PATH | os.O_CLOEXEC)  # as the operator granted it
            elif folder.opened is not None:
                opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.opened)
        return _Level(source is not None or folder.is_granted, opened)

    def _link(self) -> str | None:
        """Return the target of the last name, if it is a link in a grant."""
        opened = self.levels[-1].opened
        if opened is None or not stat.S_ISLNK(os.fstat(opened).st_mode):
            return None
        with suppress(OSError):
            return os.readlink("", dir_fd=opened)
        return None
