"""Apply a repository's `.gitignore` files to a path: from its folder up to the root, the last line first.

Outside of repositories such a file means nothing, as for git. A repository is untrusted: if following a file would take
longer than the search, the rest of it is ignored.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from .path_pattern import GlobPattern

_MAX_BYTES = 1024 * 1024
_MAX_RULES = 5_000  # of one file; the largest that people write have some hundreds
_MAX_CHARACTERS = 1_000  # of one line
_NAME = ".gitignore"
# A pipe without a writer must not block.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_REPOSITORY = (".git", ".jj")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: GlobPattern
    is_exception: bool
    is_for_folders: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in one folder of a repository, and those of the folders around it."""

    folder: tuple[str, ...]
    rules: tuple[_Rule, ...]
    around: IgnoreRules | None

    @classmethod
    def of(cls, folder: Path, around: IgnoreRules | None) -> IgnoreRules | None:
        """Return the rules in a folder, None outside of repositories; rules around a repository do not apply in it."""
        if any(os.path.lexists(f"{folder}/{name}") for name in _REPOSITORY):
            return cls(folder.parts, _rules(folder), None)
        if around is not None and (rules := _rules(folder)):
            return cls(folder.parts, rules, around)
        return around

    def verdict(self, path: tuple[str, ...], *, is_folder: bool) -> bool | None:
        """Whether the path, from the root of the file system, is ignored; None if no line matches it."""
        here: IgnoreRules | None = self
        while here is not None:
            names = path[len(here.folder) :]
            for rule in here.rules:
                if (is_folder or not rule.is_for_folders) and rule.pattern.fits(names):
                    return not rule.is_exception
            here = here.around
        return None


def rules_above(folder: Path) -> IgnoreRules | None:
    """Return the rules of the folders around this one for its contents."""
    around: IgnoreRules | None = None
    for parent in reversed(folder.parents):
        around = IgnoreRules.of(parent, around)
    return around


def _rules(folder: Path) -> tuple[_Rule, ...]:
    """Return the lines of a folder's file, the last first; empty if it cannot be read."""
    try:
        with open(os.open(folder / _NAME, _FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ()
            text = file.read(_MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    lines = text.removeprefix("\ufeff").split("\n", _MAX_RULES)[:_MAX_RULES]
    found = [_rule(line) for line in lines if len(line) <= _MAX_CHARACTERS]
    return tuple(rule for rule in reversed(found) if rule is not None)


def _rule(line: str) -> _Rule | None:
    line = line.removesuffix("\r")
    if line.startswith("#"):
        return None
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    is_exception = line.startswith("!")
    text = line.removeprefix("!")
    is_for_folders = text.endswith("/")
    text = text.removesuffix("/")
    if not text.strip("/"):
        return None
    is_anchored = "/" in text
    parts = tuple(_as_name_pattern(part) for part in text.removeprefix("/").split("/"))
    if not all(parts):
        return None
    return _Rule(GlobPattern(parts if is_anchored else ("**", *parts)), is_exception, is_for_folders)


def _as_name_pattern(part: str) -> str:
    """Return a part in the words of the standard library: `\\*` is `[*]`, `[^a]` is `[!a]`."""
    if part == "**":
        return part
    return re.sub(r"\\(.)", lambda one: f"[{one[1]}]", part).replace("[^", "[!")
