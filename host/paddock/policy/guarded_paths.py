"""What another program of the user runs by itself, inside a folder that a module may write to.

A hook in `.git`, a line in `.bashrc`, a task of an editor: writing one of these is a way to run code outside, later and
with the user's rights. Those that exist are to stay as they are unless they were granted themselves. Looks in fixed
places, for repositories however deep, the nearest first, and at what their configuration and the user's names; and says
when there was more than it looks at.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .git_settings import GitSettings

_MAX_ENTRIES: Final = 5000  # names read while looking; about ten milliseconds
_MAX_LINK_BYTES: Final = 4096
_NOT_SEARCHED: Final = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox"})  # large, and no repositories

# In the user's home, and at the top of whatever is granted, which may be a copy or a part of it.
_AT_HOME: Final = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".kshrc", ".mkshrc"),
    *(".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login", ".config/fish"),
    *(".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".pam_environment", ".config/environment.d"),
    *(".config/autostart", ".config/systemd/user", ".local/share/systemd/user", ".local/bin"),
    *(".ssh", ".gitconfig", ".config/git", ".vimrc", ".vim", ".config/nvim", ".emacs", ".emacs.d", ".tmux.conf"),
)
# At the top of whatever is granted, and of each repository in it.
_AT_PROJECT: Final = (
    *(".git", ".envrc", ".husky", ".githooks", ".pre-commit-config.yaml"),
    *(".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml"),
)
_CONFIG: Final = ".config/"  # for which the user's environment may name another folder
_AT_CONFIG: Final = tuple(name.removeprefix(_CONFIG) for name in _AT_HOME if name.startswith(_CONFIG))
# In the folder that git keeps its own things in: what it runs, what says what it runs, and what says where to look.
_SETTINGS_IN_GIT: Final = ("config", "config.worktree")
_IN_GIT: Final = ("hooks", *_SETTINGS_IN_GIT, "commondir")
_GIT_FOLDER: Final = frozenset({"HEAD", "objects", "refs"})
_GIT_WORKTREE: Final = frozenset({"HEAD", "commondir", "gitdir"})


@dataclass(frozen=True, slots=True)
class GuardedPaths:
    """What is guarded in `folder`, as far as it exists.

    `is_complete` is false where the folder holds more than is looked at, or something that cannot be guarded.
    """

    folder: Path
    existing: tuple[Path, ...]
    is_complete: bool

    @classmethod
    def find(cls, folder: Path, home: Path) -> GuardedPaths:
        """Look for what is guarded in a folder, for a user whose home is `home`.

        Where else the user's configuration may lie is told by `XDG_CONFIG_HOME` in this process's environment.
        """
        search = _Search(folder)
        search.run()
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / _CONFIG)
        settings = search.settings(home, config)
        places = dict.fromkeys(
            [
                *(base / name for base in (folder, home) for name in _AT_HOME),
                *(config / name for name in _AT_CONFIG),
                *(base / name for base in (folder, *search.projects) for name in _AT_PROJECT),
                *(base / name for base in search.git_folders for name in _IN_GIT),
                *search.git_files,
                *settings.named,
            ]
        )
        # A folder `.git` is guarded by what is in it: git itself has to write there. Whatever else looks like one may
        # have been made to.
        existing = (
            place
            for place in places
            if folder in place.parents
            and not (place.name == ".git" and place in search.git_folders)
            and os.path.lexists(place)
        )
        # The folder itself may be the one of hooks, and nothing keeps it as it is while it may be written to.
        is_complete = search.is_complete and settings.is_complete and folder not in settings.named
        return cls(folder, tuple(existing), is_complete)

    def to_protect(self, granted: Collection[Path]) -> tuple[Path, ...]:
        """Return what is to be kept as it is, unless it is among the paths `granted` by themselves.

        Of a link that is what it leads to, where that is in the folder: nothing keeps a link from being replaced.
        """
        real = dict.fromkeys(Path(os.path.realpath(path)) for path in self.existing if path not in granted)
        return tuple(path for path in real if self.folder in path.parents and path not in granted and path.exists())


class _Search:
    """A look through a folder, nearest folders first, that stops after a bounded number of names."""

    def __init__(self, folder: Path) -> None:
        self.projects: list[Path] = []
        self.git_folders: dict[Path, list[Path]] = {}  # each with the working trees that are known to be its
        self.git_files: list[Path] = []
        self.is_complete = True
        self._folder = folder
        self._left = _MAX_ENTRIES
        self._pending = deque([folder])
        self._last: deque[Path] = deque()

    def run(self) -> None:
        for above in self._folder.parents:  # the folder may be a part of a repository, and hold what that one names
            git = above / ".git"
            if not self._is_heeded(git):
                continue
            if os.path.isdir(git):  # which says no of what may not be looked at
                self._note_tree(git, above)
            elif os.path.isfile(git):
                self._note_git_file(git)
        while folders := self._pending or self._last:
            if self._left <= 0:
                self.is_complete = False
                return
            self._look_into(folders.popleft())

    def _is_heeded(self, git: Path) -> bool:
        """Whether git would use it in the folder: another user's it refuses, whatever lies in `/tmp`."""
        try:
            return git.stat().st_uid in (0, os.geteuid(), self._folder.stat().st_uid)
        except OSError:
            return False

    def settings(self, home: Path, config: Path) -> GitSettings:
        """Return what the configuration of the repositories that were found names, and that of the user."""
        settings = GitSettings(home)
        trees_of = {git: [*trees] or [git] for git, trees in self.git_folders.items()}
        for git in self.git_folders:
            for name in _SETTINGS_IN_GIT:
                if (tree := settings.worktree(git / name, git)) is not None:
                    trees_of[git].append(tree)
        trees = dict.fromkeys([*self.projects, *(tree for trees in trees_of.values() for tree in trees)])
        # Wherever the user's own is, it may name what is in the folder. A relative place is another for each program.
        settings.is_complete &= config.is_absolute()
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
            return  # what cannot be listed by us cannot be entered by a module that runs as us
        except OSError:
            self.is_complete = False  # as of a path too long to name; a module may go there step by step
            return
        if _GIT_FOLDER <= names or _GIT_WORKTREE <= names:
            trees = self.git_folders.setdefault(folder, [])
            if folder.name == ".git":
                trees.append(folder.parent)
                # Submodules and worktrees have their own; a submodule's name may have slashes in it.
                self._pending.extend(folder / name for name in ("modules", "worktrees") if name in folders)
                return
            # Whoever may write to a folder can have it look so: what is below counts as it does anywhere. A repository
            # keeps most of its names in one folder, which is not to cost the others their turn.
            if "objects" in folders:
                folders.remove("objects")
                self._last.append(folder / "objects")
        if ".git" in folders:
            self.projects.append(folder)
            self._pending.appendleft(folder / ".git")
        elif ".git" in names:
            self.projects.append(folder)
            self._note_git_file(folder / ".git")
        below = (name for name in folders if name != ".git" and name not in _NOT_SEARCHED)
        self._pending.extend(folder / name for name in below)

    def _note_git_file(self, file: Path) -> None:
        """Guard a `.git` that says where the real one is, and that one, as far as they are inside."""
        self.git_files.append(file)
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as opened:
                text = os.fsdecode(opened.read(_MAX_LINK_BYTES))
        except OSError:
            return
        key, _, place = text.strip().partition(":")
        if key == "gitdir" and "\0" not in place:
            real = Path(os.path.realpath(file.parent / place.strip()))
            if os.path.isdir(real):
                self._note_tree(real, file.parent)

    def _note_tree(self, git: Path, tree: Path) -> None:
        self.git_folders.setdefault(git, []).append(tree)
        if git.parent.name == "worktrees":  # what its repository says of hooks is said of it as well
            self.git_folders.setdefault(git.parent.parent, []).append(tree)
