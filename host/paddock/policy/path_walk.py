"""Follow paths one component at a time, as the kernel does: the one walk, and the paths that a plan grants.

Each caller examines every link and folder on the way in the same pass, and judges it by its own rule. A resolved
granted path contains no link any more. A user of it must follow none: a part that became a link since would lead
elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from paddock.plan.problems import NotAcceptedError
from paddock.policy.owner import Owner
from paddock.text import reason_of
from paddock_sources.similar_names import near

_MAX_LINKS: Final = 40  # as many as the kernel follows
_MAX_NAMES: Final = 4096  # on a path through links; the kernel allows 4096 bytes, and each link's target counts again
_MAX_NAMES_COMPARED: Final = 1000

KERNEL_FOLDERS: Final = ("/proc", "/sys", "/dev")
"""What is in them is the kernel's: nothing there is granted, and each process sees other contents."""

_OF_THE_SYSTEM: Final = tuple(
    map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/etc"))
)

_Level = TypeVar("_Level")


class PathWalk(Generic[_Level]):
    """An absolute path on its way through the file system.

    Iterating yields each next name, which stands at `path`. A caller examines it, and either enters it or goes to its
    target. `..` goes back to the folder before. `names` are those entered, none of them a link, and `levels` are the
    caller's findings about the root and about each of these.
    """

    def __init__(self, path: Path, root: _Level) -> None:
        self.names: list[str] = []
        self.levels = [root]
        self._texts = ["/"]  # the path to each level; joined again for each name, a deep one took its length squared
        self.pending = _components(str(path))  # the first one last
        self.links = 0
        self._passed = 0  # names, those that went back included

    def __iter__(self) -> Iterator[str]:
        while self.pending:
            name = self.pending.pop()
            self._passed += 1
            if name == "..":
                self.leave(len(self.names) - 1)
            else:
                yield name

    @property
    def path(self) -> Path:
        """The path so far, without a link."""
        return Path(self._texts[-1])

    def text_of(self, name: str) -> str:
        """Return the path of a name in the present folder."""
        return f"{self._texts[-1].rstrip('/')}/{name}"

    @property
    def may_follow(self) -> bool:
        """Whether one more link is followed: the kernel would, and the way does not get absurdly long."""
        return self.links < _MAX_LINKS and self._passed + len(self.pending) <= _MAX_NAMES

    def enter(self, name: str, found: _Level) -> None:
        """Enter a name that is no link."""
        self._texts.append(self.text_of(name))
        self.names.append(name)
        self.levels.append(found)

    def go_to(self, target: str) -> None:
        """Go to the target of a link in the present folder."""
        self.links += 1
        if target.startswith("/"):
            self.leave(0)
        self.pending += _components(target)

    def leave(self, kept: int) -> None:
        """Go back until only so many names are left."""
        kept = max(kept, 0)
        del self.names[kept:], self.levels[kept + 1 :], self._texts[kept + 1 :]


def real_path(path: Path) -> Path:
    """Return the target of an absolute path, which exists.

    Raises:
        OSError: nothing is there, or it cannot be reached.
    """
    walk = PathWalk(path, None)
    for name in walk:
        place = walk.text_of(name)
        if not stat.S_ISLNK(os.lstat(place).st_mode):
            walk.enter(name, None)
        elif walk.may_follow:
            walk.go_to(os.readlink(place))
        else:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return walk.path


@dataclass(frozen=True, slots=True)
class GrantedPath:
    """The target of `written` in a plan: `path`, without any link, through `links` (each with its target).

    `spelled` is the same path, absolute, with its links: the name a module may use for it. `others` are the names
    between the two, once each link is replaced by its target. None has a `..` in it, since each may become a place in
    the module's file system.
    """

    written: str
    spelled: Path
    path: Path
    links: tuple[tuple[Path, str], ...]
    is_directory: bool
    others: tuple[Path, ...] = ()

    @classmethod
    def resolve(cls, written: str, working_dir: Path, owner: Owner) -> Self:
        """Follow a path as a plan has it: absolute, relative to `working_dir`, or below the owner's home as `~/…`.

        Raises:
            NotAcceptedError: nothing is there, no module may have it, or another user could replace it.
        """
        named = owner.expanded(written, working_dir)
        walk = _GrantWalk(written, named, owner)
        walk.follow()
        mode = walk.levels[-1].st_mode
        if not walk.names:
            raise NotAcceptedError(f"`{written}` is the whole file system", "grant the folders that are needed")
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise NotAcceptedError(f"`{written}` is neither a file nor a folder", "grant the folder that it is in")
        try:
            spelled, *others = map(_climbed, (named, *walk.others))
        except OSError as error:
            raise NotAcceptedError(f"`{written}` changed while it was followed: {reason_of(error)}", "") from error
        return cls(written, spelled, walk.path, tuple(walk.followed), stat.S_ISDIR(mode), tuple(others))

    def refuse_writing_to_the_system(self) -> None:
        """Refuse a grant to write to the system's own folders: code in them runs by itself, and for everybody.

        Raises:
            NotAcceptedError: it is one of them, or in one.
        """
        for folder in _OF_THE_SYSTEM:
            if self.path.is_relative_to(folder):
                raise NotAcceptedError(
                    f"`{self.written}` is in `{folder}`, the system's own, which no module may change",
                    "grant a folder of your own, or only `read`",
                )

    def describe(self) -> str:
        """Return the path as shown to a person: its real place, and the links on the way."""
        text = str(self.path)
        if self.links:
            text += f" (by way of {', '.join(f'{link} -> {target}' for link, target in self.links)})"
        return text


class _GrantWalk(PathWalk[os.stat_result]):
    """Follows a granted path: `followed` are the links on its way, each with its target."""

    def __init__(self, written: str, path: Path, owner: Owner) -> None:
        super().__init__(path, os.stat("/"))
        self.followed: list[tuple[Path, str]] = []
        self.others: list[Path] = []
        self._written = written
        self._owner = owner

    def follow(self) -> None:
        for name in self:
            info = self._look_at(name)
            self._refuse_strangers(name, info)
            if stat.S_ISLNK(info.st_mode):
                if not self.may_follow:
                    raise NotAcceptedError(
                        f"`{self._written}` leads through too many links, or in a circle", "name its end"
                    )
                link = self.path / name
                target = os.readlink(link)
                self.followed.append((link, target))
                self.go_to(target)
                self.others.append(self.path.joinpath(*reversed(self.pending)))
                continue
            if self.pending and not stat.S_ISDIR(info.st_mode):
                raise NotAcceptedError(
                    f"`{self._written}` does not exist: `{self.path / name}` is no folder", "name what is there"
                )
            self.enter(name, info)
            if str(self.path) in KERNEL_FOLDERS:
                raise NotAcceptedError(
                    f"`{self._written}` leads into `{self.path}`, which is the kernel's and never granted",
                    "modules have devices and a /proc of their own",
                )

    def _look_at(self, name: str) -> os.stat_result:
        path = self.path / name
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NotAcceptedError(self._missing(path), _what_to_do_about_missing(self.path, name)) from None
        except (OSError, ValueError) as error:
            raise NotAcceptedError(
                f"`{self._written}` cannot be followed: `{path}`: {reason_of(error)}",
                "grant what the user who runs Paddock can reach",
            ) from error

    def _missing(self, path: Path) -> str:
        if self.followed:
            link, target = self.followed[-1]
            return f"`{self._written}` does not exist: `{link}` leads to `{target}`, and there is no `{path}`"
        return f"`{self._written}` does not exist: there is no `{path}`"

    def _refuse_strangers(self, name: str, info: os.stat_result) -> None:
        folder = self.levels[-1]
        stranger = self._owner.stranger_at(folder, info)
        if stranger is not None:
            mode = stat.S_IMODE(folder.st_mode)
            # Only its owner and root can change it; others would be sent to a file of somebody else's.
            fix = self._owner.remedy(self.path, folder) if self._owner.uid in (0, folder.st_uid) else ""
            accepted = f"grant a path below folders that only you can change{fix and f', or: {fix}'}"
            if self.path == Path("/"):
                accepted = "run Paddock where nobody else can change `/`"
            raise NotAcceptedError(
                f"`{self._written}` leads through `{self.path}`, in which somebody else could put another thing in the "
                f"place of `{name}`: {stranger} (mode {mode:04o})",
                accepted,
            )


def _climbed(path: Path) -> Path:
    """Return an absolute path with each `..` followed as the kernel does: up from a link's target.

    Raises:
        OSError: such a link leads nowhere any more.
    """
    climbed = Path("/")
    for part in path.parts[1:]:
        if part == "..":
            climbed = real_path(climbed).parent if climbed.is_symlink() else climbed.parent
        else:
            climbed /= part
    return climbed


def _components(path: str) -> list[str]:
    """Return the parts of a path, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _what_to_do_about_missing(folder: Path, name: str) -> str:
    if name.startswith("~"):
        return "`~/…` is your home folder; no other is written this way"
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MAX_NAMES_COMPARED)]
    except OSError:
        names = []
    close = near(name, names)
    meant = f"did you mean `{folder / close[0]}`?" if close else ""
    if folder == Path("/"):  # nobody makes one there; a module's own folder has such a name inside
        return meant or "name the path that it has outside of a sandbox"
    return f"create it{f', or {meant}' if meant else ''}"
