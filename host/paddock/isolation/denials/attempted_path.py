"""A path that a module named, followed in the host's tree as far as the module's grants go, and not a step further.

What lies outside is not looked at, at all: to look up a name may mount a file system, ask a server or wake a program of
the user's, and the module would have chosen which. A link inside a grant is read, and where it leads is taken as it is
written. Each step is taken from the folder before it, so that no other link is followed should one be swapped in.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock_sandbox.profile import Mount

_KERNELS: Final = ("/proc", "/sys", "/dev")  # nothing in there is granted, and what is there depends on who looks
_MAX_LINKS: Final = 40  # as the kernel has it
_MAX_NAMED: Final = 4096  # characters of a path, as the kernel has it; a walk takes the square of their number


@dataclass(frozen=True, slots=True)
class AttemptedPath:
    """What a path leads to: `path` is its name by then.

    `nearest` is the last part of it that is there, known only where the path ends within a grant.
    """

    path: Path
    nearest: Path | None = None

    @property
    def is_there(self) -> bool:
        """Whether it was looked at, and is there."""
        return self.nearest == self.path

    @classmethod
    def follow(cls, named: Path, mounts: Iterable[Mount]) -> AttemptedPath | None:
        """Follow an absolute path; None for one that ends with the kernel, or nowhere."""
        walk = _Walk({mount.target: mount.source for mount in mounts})
        try:
            return walk.follow(named)
        finally:
            walk.leave(0)


def open_within(folder: Path, named: str) -> int | None:
    """Open a plain file in `folder` for reading, by a path that somebody else chose; None for anything else.

    `folder` has no link in its path. No name outside of it is looked up, whatever links are in it or are put in it
    meanwhile, and nothing but a plain file is opened.
    """
    if len(named) > _MAX_NAMED:
        return None
    walk = _Walk({str(folder): str(folder)})
    try:
        return walk.open(folder / named)
    finally:
        walk.leave(0)


class _Walk:
    """The names so far, and for each an open descriptor where it is within a grant and exists."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._names: list[str] = []
        self._open: list[int | None] = []
        self._granted: list[bool] = []

    def follow(self, named: Path) -> AttemptedPath | None:
        pending, links = list(reversed(named.parts[1:])), 0
        while pending:
            part = pending.pop()
            if part == "..":
                self.leave(len(self._names) - 1)
                continue
            if self._name(part) in _KERNELS:
                return None
            self._enter(part)
            leads = self._link()
            if leads is None:
                continue
            links += 1
            if links > _MAX_LINKS:
                return None
            self.leave(0 if leads.startswith("/") else len(self._names) - 1)
            pending += reversed([part for part in leads.split("/") if part not in ("", ".")])
        there = sum(opened is not None for opened in self._open)
        outside = self._granted.count(False)
        is_within = bool(self._granted) and self._granted[-1]
        nearest = Path("/", *self._names[: outside + there]) if is_within else None
        return AttemptedPath(Path("/", *self._names), nearest)

    def open(self, named: Path) -> int | None:
        """Follow a path and open what it leads to, a plain file in a grant, for reading; None for anything else."""
        if self.follow(named) is None or not self._open or (found := self._open[-1]) is None:
            return None
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(found).st_mode):
                # What was found, whatever has its name by now.
                return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return None

    def leave(self, kept: int) -> None:
        """Go back until only so many names are left."""
        while len(self._names) > max(kept, 0):
            self._names.pop()
            self._granted.pop()
            opened = self._open.pop()
            if opened is not None:
                os.close(opened)

    def _enter(self, part: str) -> None:
        source = self._sources.get(self._name(part))
        opened = None
        with suppress(OSError, ValueError):
            if source is not None:
                opened = os.open(source, os.O_PATH | os.O_CLOEXEC)  # as the operator granted it
            elif self._open and self._open[-1] is not None:
                opened = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._open[-1])
        is_granted = source is not None or bool(self._granted and self._granted[-1])
        self._names.append(part)
        self._open.append(opened)
        self._granted.append(is_granted)

    def _link(self) -> str | None:
        """Return where the last name leads, if it is a link in a grant."""
        opened = self._open[-1]
        if opened is None or not stat.S_ISLNK(os.fstat(opened).st_mode):
            return None
        with suppress(OSError):
            return os.readlink("", dir_fd=opened)
        return None

    def _name(self, part: str) -> str:
        return "/" + "/".join([*self._names, part])
