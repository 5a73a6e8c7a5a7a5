"""Patterns of paths: `*` and `?` within a name, `[abc]`, and `**` for any number of folders."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

from .failure import Failure

_MAX_PARTS = 32


class PathPattern:
    """A pattern over paths from `folder`, with `/` between names.

    `*.py` matches files in the folder itself, `**/*.py` also those below it, `src/**` all below `src`. A part such as
    `[id]` stands for the very name where that is there. No pattern is slow: within a name the standard library goes
    back by one star at most, and here by none.
    """

    def __init__(self, text: str, folder: Path) -> None:
        """Raises `Failure` for a pattern that leads out of the folder or has too many parts."""
        parts = [part for part in text.split("/") if part != "."]
        if text.startswith("/") or ".." in parts or not all(parts) or len(parts) > _MAX_PARTS:
            raise Failure(
                "invalid_input",
                f"`pattern` must be relative to the folder, as in `*.py` or `src/**/*.py`, not {text!a}.",
            )
        self._parts = tuple(parts)
        self._folder = folder

    def fits(self, path: str) -> bool:
        """Whether a path fits as a whole."""
        return len(self._parts) in self._states(path.split("/"))

    def leads_below(self, path: str) -> bool:
        """Whether something below the folder at `path` may fit."""
        return any(state < len(self._parts) for state in self._states(path.split("/")))

    def _states(self, names: list[str]) -> set[int]:
        """Return how many parts may be used up after these names."""
        states = self._with_empty_stars({0})
        for depth, name in enumerate(names):
            following: set[int] = set()
            for state in states:
                if state == len(self._parts):
                    continue
                part = self._parts[state]
                if part == "**":
                    following.add(state)
                    if state == len(self._parts) - 1:
                        following.add(state + 1)
                elif name == part or (fnmatchcase(name, part) and not self._is_name(part, names[:depth])):
                    following.add(state + 1)
            states = self._with_empty_stars(following)
        return states

    def _is_name(self, part: str, above: list[str]) -> bool:
        """Whether a part is, as it is written, a name in the folder at `above`."""
        return "[" in part and os.path.lexists(self._folder.joinpath(*above, part))

    def _with_empty_stars(self, states: set[int]) -> set[int]:
        """Add the rest of the pattern for a `**` that stands for no folder; at the end `**` needs at least one name."""
        found = set(states)
        for state in sorted(states):
            while state < len(self._parts) - 1 and self._parts[state] == "**":
                state += 1
                found.add(state)
        return found
