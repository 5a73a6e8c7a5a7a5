"""List a folder, or all below it, in the order of names. Links are named and never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .pattern import PathPattern

_KINDS = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFREG: "file"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries found, as the tool reports them, and why there may be more: `limit`, `visited`, or nothing."""

    entries: list[dict[str, object]]
    cut_by: str = ""


def listing(folder: Path, pattern: PathPattern, *, hidden: bool, limit: int, max_visited: int) -> Listing:
    """Return the entries whose path from `folder` fits the pattern, at most `limit`, after at most `max_visited`.

    Raises:
        OSError: the folder itself cannot be read; those below it that cannot are passed over.
    """
    found: list[dict[str, object]] = []
    visited = 0
    for entry in _below(folder, pattern, hidden):
        visited += 1
        if visited > max_visited:
            return Listing(found, "visited")
        if pattern.fits(entry[0]):
            if len(found) == limit:
                return Listing(found, "limit")
            found.append(_described(*entry))
    return Listing(found)


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


def _described(path: str, entry: os.DirEntry[str]) -> dict[str, object]:
    """Return the path of an entry, its kind, and the size of a file."""
    about: dict[str, object] = {"path": os.fsencode(path).decode("utf-8", "backslashreplace"), "type": "other"}
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return about
    about["type"] = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    if about["type"] == "file":
        about["bytes"] = status.st_size
    return about
