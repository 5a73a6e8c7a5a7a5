"""Find the files that another program of the user runs by itself, inside a folder that a module may write to.

A hook in `.git`, a line in `.bashrc`, a task of an editor: a module that writes one runs code outside, later and with
the user's rights. Existing ones stay as they are unless the plan grants them by name. A folder is kept as a whole, not
only the parts that are run: others could replace a file in it at any moment, which would end its guard. The search
covers fixed places, repositories at any depth (the nearest first), and the places that their configuration and the
user's configuration name. It reports if there was more than it examines.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Final, Self

from paddock.policy.git_settings import GitSettings, read_file_of_git
from paddock.policy.guarded_places import (
    A_READER,
    ANY_PROGRAM_OF_YOURS,
    AT_HOME,
    AT_TOP,
    GIT,
    GIT_COMMAND,
    IN_ANY_FOLDER,
    OPEN_INSIDE,
    SEARCHED_AT_HOME,
    is_apart,
    is_guarded,
    runner_by_name,
)
from paddock.policy.path_walk import PathWalk
from paddock_sandbox.syscalls import call

_MAX_ENTRIES: Final = 5000  # names read while looking; about ten milliseconds
_MAX_AT_TOP: Final = 1000  # names of one folder; homes have a hundred
_MAX_LINK_BYTES: Final = 4096
_MAX_LINKS: Final = 100  # names of one folder; of hooks git knows thirty, and leaves as many examples
_NOT_SEARCHED: Final = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox"})  # large, and no repositories

_CONFIG: Final = ".config/"  # for which the user's environment may name another folder
_ANYWHERE: Final = {name: name.partition("/")[0] for place in IN_ANY_FOLDER for name in place.names}
_FIRST_ANYWHERE: Final = frozenset(_ANYWHERE.values())
_AT_TOP: Final = {name: name.partition("/")[0].lower() for name in AT_TOP}
_CONFIG_NAMES: Final = tuple(
    name.removeprefix(_CONFIG) for place in AT_HOME for name in place.names if name.startswith(_CONFIG)
)
# In git's own folder: files that git runs, files that name what it runs, and files that name where it looks.
_SETTINGS_IN_GIT: Final = ("config", "config.worktree")
_HOOKS: Final = "hooks"
_IN_GIT: Final = (_HOOKS, *_SETTINGS_IN_GIT, "commondir")
_GIT_FOLDER: Final = frozenset({"HEAD", "objects", "refs"})
_GIT_WORKTREE: Final = frozenset({"HEAD", "commondir", "gitdir"})
_FURTHER_REPOSITORIES: Final = ("modules", "worktrees")  # folders in git's own, of submodules and working trees
_HEAD: Final = re.compile(r"ref:\s*refs/|[0-9a-f]{40}")  # as git wants it of its folder

# From <linux/fcntl.h> and <linux/stat.h>.
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME = -100, 0x100, 0x800
_STATX_BYTES, _BTIME_OFFSET = 256, 80


@dataclass(frozen=True, slots=True)
class GuardedPaths:
    """The guarded places in `folder`, as far as they exist.

    `watched` are the parts of them whose change matters, where nothing protects them: a folder of git's changes with
    each commit. `repositories` are git's own folders, perhaps with `folder` itself. `is_complete` is false where the
    folder holds more than is examined, or something that cannot be guarded. `ways` are paths, with their links, by
    which git reaches some of it.
    """

    folder: Path
    existing: tuple[Path, ...]
    watched: tuple[Path, ...]
    repositories: frozenset[Path]
    is_complete: bool
    ways: tuple[Path, ...] = ()
    open: tuple[Path, ...] = ()

    @classmethod
    def find(cls, folder: Path, home: Path) -> GuardedPaths:
        """Look for guarded places in a folder, for a user whose home is `home`.

        `XDG_CONFIG_HOME` in this process's environment names another place of the user's configuration.
        """
        search = _Search(folder)
        search.run()
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / _CONFIG)
        settings = search.settings(home, config)
        tops = {top: _Top.look_at(top, home) for top in (folder, home, *search.projects)}
        outside = (tops.get(base) or _Top.look_at(base, home) for base in (home, *search.around))
        places = (
            *(place for top in tops.values() for place in top.places),
            *(home / name for name in SEARCHED_AT_HOME),
            *search.places,
            *(config / name for name in _CONFIG_NAMES),
            *settings.named,
            *search.closed,
            *(target for top in outside for target in top.targets(folder)),
        )
        own = (*(top / GIT for top in tops), *(place for place in places if place.name == GIT))
        gits = dict.fromkeys((*search.git_folders, *own))
        in_git = tuple(git / name for git in gits for name in _IN_GIT)
        # A module may have made a folder look like git's, around files that others are to write.
        repositories = frozenset(git for git in gits if git.name == GIT or is_repository(git))
        guarded = (
            *places,
            *(link for git in gits for link in _links_in(git / _HOOKS)),
            *repositories,
            *(place for place in in_git if place.parent not in repositories),
        )
        # The target of a link counts, which may not exist yet.
        ends = (Path(os.path.realpath(place)) for place in _existing(places, folder) if os.path.islink(place))
        alone = (place for place in (*places, *ends) if place not in repositories or not os.path.isdir(place))
        watched = (*alone, *in_git)
        # The folder itself may be the hooks folder, and nothing protects it while it may be written to.
        is_complete = search.is_complete and settings.is_complete and folder not in settings.named
        is_complete &= all(top.is_complete for top in tops.values())
        existing = tuple(_existing(guarded, folder))
        ways = tuple(dict.fromkeys((*search.ways, *settings.ways)))
        inside = _existing((top / name for top in tops for name in OPEN_INSIDE), folder)
        opened = tuple(place for place in inside if place.is_dir() and os.path.realpath(place) == str(place))
        return cls(folder, existing, tuple(_existing(watched, folder)), repositories, is_complete, ways, opened)

    def with_earlier(self, earlier: Iterable[GuardedPaths]) -> GuardedPaths:
        """Return these places with earlier findings in the same place that still exist: a later search may miss them.

        A module can create so many folders that the search never reaches the rest.
        """
        known = tuple(earlier)
        repositories = (git for one in known for git in one.repositories if os.path.isdir(git))
        return replace(
            self,
            existing=self._joined((*(path for one in known for path in one.existing), *self.existing)),
            watched=self._joined((*(path for one in known for path in one.watched), *self.watched)),
            repositories=self.repositories.union(
                git for git in repositories if git == self.folder or _lies_in(git, self.folder)
            ),
            ways=tuple(dict.fromkeys((*(way for one in known for way in one.ways), *self.ways))),
        )

    def closed(self, granted: Collection[Path]) -> tuple[Path, ...]:
        """Return the places that stay guarded when these paths are granted by name: not they, nor anything in them."""
        opened = [path for path in granted if path in self.existing or path in self.repositories]
        return tuple(
            path for path in self.existing if path not in granted and not any(self._is_part(path, of) for of in opened)
        )

    def to_protect(self, granted: Collection[Path]) -> tuple[Path, ...]:
        """Return the outermost places to protect when these paths are granted by name.

        For a link that is its target, where that lies in the folder or in a granted one; see `links_to_hold`.
        """
        real = dict.fromkeys(Path(os.path.realpath(path)) for path in self.closed(granted))
        inside = [path for path in real if self._is_writable(path, granted) and path not in granted and path.exists()]
        found = frozenset(inside)
        return tuple(path for path in inside if not keeps(found, self.open, path.parent))

    def links_to_hold(self, granted: Collection[Path]) -> tuple[Path, ...]:
        """Return the links by which other programs reach guarded places, where a module could replace them.

        That is the guarded place itself, a folder it is in, and each further one that these lead through.
        """
        opened = [path for path in granted if path in self.existing or path in self.repositories]
        settled = frozenset((*self.to_protect(granted), *opened))
        links = dict.fromkeys(
            link
            for path in (*self.closed(granted), *self.ways)
            if not any(real == one or _lies_in(real, one) for real in (Path(os.path.realpath(path)),) for one in opened)
            for link in links_on_the_way(path)
        )
        return tuple(link for link in links if self._is_writable(link, granted) and settled.isdisjoint(link.parents))

    def _is_writable(self, path: Path, granted: Collection[Path]) -> bool:
        return any(_lies_in(path, folder) for folder in (self.folder, *granted))

    def _joined(self, places: Iterable[Path]) -> tuple[Path, ...]:
        return tuple(_existing(places, self.folder))

    def _is_part(self, path: Path, guarded: Path) -> bool:
        """Whether a grant of a guarded path opens this one too; a bare repository's folder may contain other things."""
        if not _lies_in(path, guarded) or is_apart(path):
            return False
        is_bare = guarded in self.repositories and guarded.name != GIT
        return not is_bare or path.relative_to(guarded).parts[0] in _FURTHER_REPOSITORIES


def runner_of(guarded: Path) -> str:
    """Return what runs the contents of a guarded path."""
    by_name = runner_by_name(guarded) or (GIT_COMMAND if is_repository(guarded) else "")
    return by_name or (A_READER if guarded.name.startswith(".") else ANY_PROGRAM_OF_YOURS)


def keeps(guarded: Container[Path], opened: Container[Path], path: Path) -> bool:
    """Whether a path is one of these guarded ones or in one, with none of those `opened` between."""
    return next((one in guarded for one in (path, *path.parents) if one in guarded or one in opened), False)


def runner_opened(path: Path, around: Path, home: Path) -> str:
    """Return what would run code of a module that may write to `path`, itself or a part of a guarded place.

    `path` has no link in it. Of a path in `around`, places around that folder do not count, but all that is guarded in
    it does: also the target of a link, and what git's configuration names. Empty where none of the user's own programs
    runs anything there by itself.
    """
    if is_repository(path):
        return GIT_COMMAND
    is_inside = path.is_relative_to(around)
    named = ""
    for place in (path, *path.parents):
        counts = place == path or not is_inside or around in place.parents
        if counts and (named := runner_by_name(place)):
            break
    if not named and not is_inside and path.is_relative_to(home):
        is_started = any(path.is_relative_to(home / name) for name in SEARCHED_AT_HOME)
        is_read = path != home and is_guarded(path.relative_to(home), at_home=True)
        return A_READER if is_started or is_read else ""
    if named or path == around or not is_inside:
        return named
    found = GuardedPaths.find(around, home)
    for guarded in found.existing:
        if keeps({Path(os.path.realpath(guarded))}, found.open, path):
            return runner_of(guarded)
    return ""


def links_on_the_way(path: Path) -> Iterator[Path]:
    """Yield the real place of each link that the kernel follows to reach an absolute path."""
    walk = PathWalk(path, None)
    for name in walk:
        link = walk.text_of(name)
        try:
            target = os.readlink(link)
        except (OSError, ValueError):  # not a link
            walk.enter(name, None)
            continue
        if not walk.may_follow:
            return
        yield Path(link)
        walk.go_to(target)


def when_made(path: Path) -> int:
    """Return a file's or folder's birth time in nanoseconds, which no program can set; 0 where none is kept."""
    found = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        call("statx", _AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, found)
    except OSError:
        return 0
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BTIME_OFFSET)
    return int(seconds * 10**9 + nanoseconds)


def is_repository(folder: Path) -> bool:
    """Return whether git would take a folder for its own, by its contents."""
    head = folder / "HEAD"
    try:
        if not ((folder / "commondir").is_file() or ((folder / "objects").is_dir() and (folder / "refs").is_dir())):
            return False
        if head.is_symlink():
            return os.readlink(head).startswith("refs/")
        return _HEAD.match(text_in(head)) is not None
    except OSError:
        return False


def is_heeded(git: Path, folder: Path) -> bool:
    """Return whether git would use it in a folder: git refuses another user's, as one in `/tmp` may be."""
    try:
        return git.stat().st_uid in (0, os.geteuid(), folder.stat().st_uid)
    except OSError:
        return False


def text_in(file: Path, prefix: str = "") -> str:
    """Return what a small file of git's says after `prefix`; empty where it does not, or is no file to be read."""
    try:
        text = os.fsdecode(read_file_of_git(file, _MAX_LINK_BYTES)).rstrip()
    except OSError:
        return ""
    return text.removeprefix(prefix).strip() if text.startswith(prefix) and "\0" not in text else ""


def _links_in(folder: Path) -> list[Path]:
    """Return the links of a folder of hooks or commands, whose programs lie elsewhere: the folder itself, or in it."""
    if folder.is_symlink():
        return [folder]
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in islice(entries, _MAX_LINKS) if entry.is_symlink()]
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class _Top:
    """The guarded places that exist at the top of a project or home; `is_complete` is false where there are more."""

    folder: Path
    places: tuple[Path, ...]
    is_complete: bool

    @classmethod
    def look_at(cls, top: Path, home: Path) -> Self:
        names: list[str] = []
        is_listed = False  # nor can be, where its names may yet be known
        with suppress(OSError), os.scandir(top) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
            is_listed = len(names) < _MAX_ENTRIES and all(map(str.isascii, names))
        folded = {name.lower() for name in names}  # there are file systems that take one case for the other
        tried = (name for name, first in _AT_TOP.items() if first in folded or not is_listed)
        known = (place for place in map(top.joinpath, tried) if os.path.lexists(place))
        alike = (top / name for name in names if is_guarded(PurePath(name), at_home=top == home))
        some = tuple(islice(alike, _MAX_AT_TOP))
        links = (link for name in (SEARCHED_AT_HOME if top == home else ()) for link in _links_in(home / name))
        return cls(top, (*known, *some, *links), len(some) < _MAX_AT_TOP)

    def targets(self, folder: Path) -> Iterator[Path]:
        """Yield where these places lead into a folder by links from outside, as those of a home with kept dotfiles."""
        for place in self.places if not _lies_in(self.folder, folder) else ():
            if place != folder and not _lies_in(place, folder):
                yield Path(os.path.realpath(place))


def _existing(places: Iterable[Path], folder: Path) -> Iterator[Path]:
    yield from (place for place in dict.fromkeys(places) if _lies_in(place, folder) and os.path.lexists(place))


def _lies_in(path: Path, folder: Path) -> bool:
    """Whether a path begins with a folder's and goes on; a search of its parents makes a path of each."""
    parts = folder.parts
    return len(path.parts) > len(parts) and path.parts[: len(parts)] == parts


class _Search:
    """A search of a folder, nearest folders first, that stops after a bounded number of names."""

    def __init__(self, folder: Path) -> None:
        self.projects: list[Path] = []
        self.places: list[Path] = []
        self.around: list[Path] = []  # folders of repositories that the searched one lies in
        self.git_folders: dict[Path, list[Path]] = {}  # each with the working trees known to belong to it
        self.closed: list[Path] = []  # folders that cannot be read
        self.ways: list[Path] = []  # as a `.git` file names them
        self.is_complete = True
        self._folder = folder
        self._left = _MAX_ENTRIES
        self._pending = deque([folder])
        self._last: deque[Path] = deque()

    def run(self) -> None:
        for above in self._folder.parents:  # the folder may lie in a repository that names places in it
            git = above / GIT
            if not is_heeded(git, self._folder):
                continue
            self.around.append(above)
            if os.path.isdir(git):  # false for a path that may not be examined
                self._note_tree(git, above)
            elif os.path.isfile(git):
                self._note_git_file(git)
        while folders := self._pending or self._last:
            if self._left <= 0:
                self.is_complete = False
                return
            self._look_into(folders.popleft())

    def settings(self, home: Path, config: Path) -> GitSettings:
        """Examine the places that the configuration of the found repositories names, and that of the user."""
        # The user's own configuration may name a place in the folder. A relative place differs for each program.
        settings = GitSettings(home, is_complete=config.is_absolute())
        trees_of = {git: [*trees] or [git] for git, trees in self.git_folders.items()}
        for git in self.git_folders:
            for name in _SETTINGS_IN_GIT:
                if (tree := settings.worktree(git / name, git)) is not None:
                    trees_of[git].append(tree)
        trees = dict.fromkeys([*self.projects, *(tree for trees in trees_of.values() for tree in trees)])
        for file in dict.fromkeys([home / ".gitconfig", home / _CONFIG / "git/config", config / "git/config"]):
            settings.read(file, trees)
        for git, trees_of_it in trees_of.items():
            for name in _SETTINGS_IN_GIT:
                settings.read(git / name, trees_of_it)
        return settings

    def _look_into(self, folder: Path) -> None:
        folders: list[str] = []
        names: set[str] = set()
        try:
            os.stat(os.path.join(folder, os.curdir))  # a folder may have readable names and no right to enter
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        self.is_complete = False
                        break
                    names.add(entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
        except PermissionError:
            self._note_closed(folder)
            return
        except OSError:
            self.is_complete = False  # as of a path too long to name; a module may get there step by step
            return
        if _GIT_FOLDER <= names or _GIT_WORKTREE <= names:
            trees = self.git_folders.setdefault(folder, [])
            if folder.name == GIT:
                trees.append(folder.parent)
                # Submodules and worktrees have their own; a submodule's name may have slashes in it.
                self._pending.extend(folder / name for name in _FURTHER_REPOSITORIES if name in folders)
                return
            # A module that may write to a folder can make it look like a repository, so the search goes on below it.
            # A real repository keeps most of its names in `objects`, which must not use up the share of the others.
            if "objects" in folders:
                folders.remove("objects")
                self._last.append(folder / "objects")
        if not _FIRST_ANYWHERE.isdisjoint(names):
            self.places.extend(folder / name for name, first in _ANYWHERE.items() if first in names)
        if GIT in folders:
            self.projects.append(folder)
            self._pending.appendleft(folder / GIT)
        elif GIT in names:
            self.projects.append(folder)
            self._note_git_file(folder / GIT)
        below = (name for name in folders if name != GIT and name not in _NOT_SEARCHED)
        self._pending.extend(folder / name for name in below)

    def _note_closed(self, folder: Path) -> None:
        """Guard an unreadable folder as a whole, where a module that runs as the same user could enter or open it."""
        try:
            is_ours = folder.stat().st_uid == os.geteuid()
        except OSError:
            is_ours = True
        if not is_ours and not os.access(folder, os.X_OK):
            return
        if folder == self._folder:
            self.is_complete = False  # the plan grants it
        else:
            self.closed.append(folder)

    def _note_git_file(self, file: Path) -> None:
        """Guard a `.git` file that names the real folder, and that folder, as far as they are inside."""
        real = Path(os.path.realpath(file))
        if os.path.isdir(real):
            self._note_tree(real, file.parent)
            return
        if place := text_in(real, "gitdir:"):
            way = file.parent / place
            self.ways.append(way)
            real = Path(os.path.realpath(way))
            if os.path.isdir(real):
                self._note_tree(real, file.parent)

    def _note_tree(self, git: Path, tree: Path) -> None:
        self.git_folders.setdefault(git, []).append(tree)
        if git.parent.name == "worktrees":  # its repository's hook settings apply to it as well
            self.git_folders.setdefault(git.parent.parent, []).append(tree)
