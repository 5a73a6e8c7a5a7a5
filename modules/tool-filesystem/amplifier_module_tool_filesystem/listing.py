"""List a folder, or all below it, in the order of names. Links are named and never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .pattern import PathPattern


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """An entry of a folder: its path from there, its kind, and the size of a file in bytes."""

    path: str
    kind: str
    size: int | None = None

    def as_output(self) -> dict[str, object]:
        """Return the entry as the tool reports it."""
        about: dict[str, object] = {"path": self.path, "type": self.kind}
        if self.size is not None:
            about["bytes"] = self.size
        return about


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries found, and why there may be more: `limit`, `visited`, or nothing."""

    entries: tuple[ListedEntry, ...]
    cut_by: str = ""


def listing(folder: Path, pattern: PathPattern, *, hidden: bool, limit: int, max_visited: int) -> Listing:
    """Return the entries whose path from `folder` fits the pattern, at most `limit`, after at most `max_visited`.

    Raises:
        OSError: the folder itself cannot be read; those below it that cannot are passed over.
    """
    found: list[ListedEntry] = []
    visited = 0
    for entry in _below(folder, pattern, hidden):
        visited += 1
        if visited > max_visited:
            return Listing(tuple(found), "visited")
        if pattern.fits(entry[0]):
            if len(found) == limit:
                return Listing(tuple(found), "limit")
            found.append(_described(*entry))
    return Listing(tuple(found))


def _below(folder: Path, pattern: PathPattern, hidden: bool) -> Iterator[tuple[str, os.DirEntry[str]]]:
    open_folders = [("", iter(_children(folder)))]  # a list: folders nest deeper than calls may
    while open_folders:
        prefix, children = open_folders[-1]
        for child in children:
            if child.name.startswith(".") and not hidden:
                continue
            path = f"{prefix}{child.name}"
            yield path, child
            if pattern.leads_below(path) and _is_folder(child):
                try:
                    open_folders.append((f"{path}/", iter(_children(folder / path))))
                except OSError:
                    continue
                break
        else:
            open_folders.pop()


def _children(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda one: one.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _described(path: str, entry: os.DirEntry[str]) -> ListedEntry:
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return ListedEntry(shown, "other")
    if stat.S_ISLNK(status.st_mode):
        return ListedEntry(shown, "link")
    if stat.S_ISDIR(status.st_mode):
        return ListedEntry(shown, "folder")
    if stat.S_ISREG(status.st_mode):
        return ListedEntry(shown, "file", status.st_size)
    return ListedEntry(shown, "other")
