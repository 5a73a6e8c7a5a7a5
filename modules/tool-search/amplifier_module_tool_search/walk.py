"""Go through the files below a folder, in the order of their names. Links are never followed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .deadline import Deadline
from .ignore_file import IgnoreRules, rules_above

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files to walk; `enters` decides whether anything below a folder can be of interest."""

    hidden: bool = False
    ignored: bool = False
    enters: Callable[[Names], bool] = lambda names: True


def files_below(root: Path, wanted: Wanted, deadline: Deadline) -> Iterator[Names]:
    """Yield the regular files below a folder, each as its names from there, until the time is up.

    A folder that cannot be read is passed over. `.git` always is.
    """
    rules = None if wanted.ignored or is_ignored(root) else rules_above(root)
    open_folders = [_children(root, (), rules, wanted, deadline)]  # a list: folders nest deeper than calls may
    while open_folders:
        for names, folder, rules in open_folders[-1]:
            if folder is not None:
                open_folders.append(_children(folder, names, rules, wanted, deadline))
                break
            yield names
        else:
            open_folders.pop()


def is_ignored(root: Path) -> bool:
    """Whether a `.gitignore` names the folder itself. The caller named it explicitly, so no rule around it applies."""
    rules = rules_above(root)
    return rules is not None and rules.verdict(root.parts, is_folder=True) is True


class Admission:
    """Whether single files are among those that `files_below` goes through."""

    def __init__(self, root: Path, wanted: Wanted) -> None:
        self._root = root
        self._wanted = wanted
        above = None if wanted.ignored or is_ignored(root) else rules_above(root)
        # Of each folder that was asked about: whether it is entered, and by which rules.
        self._folders: dict[Names, tuple[bool, IgnoreRules | None]] = {}
        self._folders[()] = (True, None if wanted.ignored else IgnoreRules.of(root, above))

    def admits(self, names: Names) -> bool:
        """Return it for a regular file's names from the root."""
        folder = names[:-1]
        is_entered, rules = self._folder(folder)
        return is_entered and not self._is_passed_over(folder, names[-1], rules, is_folder=False)

    def _folder(self, names: Names) -> tuple[bool, IgnoreRules | None]:
        known = len(names)
        while names[:known] not in self._folders:
            known -= 1
        is_entered, rules = self._folders[names[:known]]
        for depth in range(known + 1, len(names) + 1):
            folder = names[:depth]
            if is_entered and self._is_passed_over(folder[:-1], folder[-1], rules, is_folder=True):
                is_entered = False
            if is_entered and not self._wanted.ignored:
                rules = IgnoreRules.of(self._root.joinpath(*folder), rules)
            self._folders[folder] = is_entered, rules
        return is_entered, rules

    def _is_passed_over(self, folder: Names, name: str, rules: IgnoreRules | None, *, is_folder: bool) -> bool:
        parts = (*self._root.parts, *folder)
        return _is_passed_over(name, parts, rules, self._wanted, is_folder=is_folder)


def _children(
    folder: Path, names: Names, around: IgnoreRules | None, wanted: Wanted, deadline: Deadline
) -> Iterator[tuple[Names, Path | None, IgnoreRules | None]]:
    """Yield the names of each file in a folder, and of each folder to enter, with its path and the rules around it."""
    rules = None if wanted.ignored else IgnoreRules.of(folder, around)
    try:
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda one: one.name)
    except OSError:
        return
    for child in children:
        if not deadline.left:
            return
        is_folder = child.is_dir(follow_symlinks=False)
        if not is_folder and not child.is_file(follow_symlinks=False):
            continue
        if _is_passed_over(child.name, folder.parts, rules, wanted, is_folder=is_folder):
            continue
        below = (*names, child.name)
        if not is_folder:
            yield below, None, None
        elif wanted.enters(below):
            yield below, folder / child.name, rules


def _is_passed_over(name: str, folder: Names, rules: IgnoreRules | None, wanted: Wanted, *, is_folder: bool) -> bool:
    if name == ".git":
        return True
    verdict = None if rules is None else rules.verdict((*folder, name), is_folder=is_folder)
    if verdict is not None:
        return verdict  # a line that takes something back also shows hidden files, as in ripgrep
    return name.startswith(".") and not wanted.hidden
