"""What a repository's `.gitignore` files say of a path: from its folder up to the root, the last line first.

Outside of repositories such a file means nothing, as for git.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .path_pattern import PathPattern

_MAX_BYTES = 1024 * 1024
_NAME = ".gitignore"
_REPOSITORY = (".git", ".jj")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: PathPattern
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
        """Return the rules in a folder, None outside of repositories; those around a repository hold no more in it."""
        if _is_repository(folder):
            return cls(folder.parts, _rules(folder), None)
        if around is not None and (rules := _rules(folder)):
            return cls(folder.parts, rules, around)
        return around

    def verdict(self, path: tuple[str, ...], *, is_folder: bool) -> bool | None:
        """Whether the path, from the root of the file system, is ignored; None where no line is about it."""
        names = path[len(self.folder) :]
        for rule in self.rules:
            if (is_folder or not rule.is_for_folders) and rule.pattern.fits(names):
                return not rule.is_exception
        return None if self.around is None else self.around.verdict(path, is_folder=is_folder)


def rules_above(folder: Path) -> IgnoreRules | None:
    """Return the rules that folders around this one have for what is in it."""
    around: IgnoreRules | None = None
    for parent in reversed(folder.parents):
        around = IgnoreRules.of(parent, around)
    return around


def _is_repository(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in _REPOSITORY)


def _rules(folder: Path) -> tuple[_Rule, ...]:
    """Return the lines of a folder's file, the last first; none where it cannot be read."""
    try:
        with open(folder / _NAME, "rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    found = [_rule(line) for line in text.removeprefix("\ufeff").split("\n")]
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
    return _Rule(PathPattern(parts if is_anchored else ("**", *parts)), is_exception, is_for_folders)


def _as_name_pattern(part: str) -> str:
    """Return a part in the words of the standard library: `\\*` is `[*]`, `[^a]` is `[!a]`."""
    if part == "**":
        return part
    return re.sub(r"\\(.)", lambda one: f"[{one[1]}]", part).replace("[^", "[!")
