"""Patterns of paths: `*` and `?` within a name, `[abc]`, `{a,b}`, and `**` for any number of folders."""

from __future__ import annotations

import os
import re
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

from .failure import Failure

_MAX_PARTS = 32
_MAX_ALTERNATIVES = 64


class GlobPattern:
    """A pattern over paths from one folder, as tuples of names.

    No pattern is slow: within a name the standard library goes back by one star at most, and here by none.

    With `folder`, the one that paths start at, a part such as `[id]` stands for the very name where that is there.
    """

    def __init__(self, parts: tuple[str, ...], folder: Path | None = None) -> None:
        self._parts = tuple(None if part == "**" else _name_pattern(part) for part in parts)
        self._folder = folder or Path()
        self._perhaps_names = {} if folder is None else {n: part for n, part in enumerate(parts) if "[" in part}

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether a path fits as a whole."""
        return len(self._parts) in self._states(names)

    def leads_below(self, names: tuple[str, ...]) -> bool:
        """Whether something below the folder at this path may fit."""
        return any(state < len(self._parts) for state in self._states(names))

    def _states(self, names: tuple[str, ...]) -> set[int]:
        """Return how many parts may be used up after these names."""
        states = self._with_empty_stars({0})
        for depth, name in enumerate(names):
            following: set[int] = set()
            for state in states:
                if state == len(self._parts):
                    continue
                part = self._parts[state]
                if part is None:
                    following.add(state)
                    if state == len(self._parts) - 1:
                        following.add(state + 1)
                elif name == self._perhaps_names.get(state):
                    following.add(state + 1)
                elif part.match(name) and not self._is_name(state, names[:depth]):
                    following.add(state + 1)
            states = self._with_empty_stars(following)
        return states

    def _is_name(self, state: int, above: tuple[str, ...]) -> bool:
        """Whether a part is, as it is written, a name in the folder at `above`."""
        written = self._perhaps_names.get(state)
        return written is not None and os.path.lexists(self._folder.joinpath(*above, written))

    def _with_empty_stars(self, states: set[int]) -> set[int]:
        """Add the rest of the pattern for a `**` that stands for no folder; at the end `**` needs at least one name."""
        found = set(states)
        for state in states:
            while state < len(self._parts) - 1 and self._parts[state] is None:
                state += 1
                found.add(state)
        return found


class PathPatterns:
    """The alternatives that a pattern with braces stands for."""

    def __init__(self, text: str, argument: str, folder: Path, *, anywhere: bool = False) -> None:
        """Read a pattern of paths from `folder`; with `anywhere`, a single name is tried on names at any depth.

        Raises:
            Failure: it leads out of the folder, or is too large.
        """
        self._patterns = []
        for one in _alternatives(text, argument):
            parts = tuple(part for part in one.split("/") if part != ".")
            if one.startswith("/") or ".." in parts or not all(parts) or not 0 < len(parts) <= _MAX_PARTS:
                raise Failure(
                    "invalid_input",
                    f"`{argument}` must be relative to the folder, as in `*.py` or `src/**/*.py`, not {text!a}.",
                )
            self._patterns.append(GlobPattern(("**", *parts) if anywhere and len(parts) == 1 else parts, folder))

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether a path fits one of them."""
        return any(one.fits(names) for one in self._patterns)

    def leads_below(self, names: tuple[str, ...]) -> bool:
        """Whether something below the folder at this path may fit one of them."""
        return any(one.leads_below(names) for one in self._patterns)


def _alternatives(text: str, argument: str) -> list[str]:
    """Return the alternatives of braces: `*.{c,h}` is `*.c` and `*.h`."""
    waiting, done = [text], []
    while waiting:
        one = waiting.pop()
        braces = re.search(r"\{([^{}]*)\}", one)
        if braces is None:
            done.append(one)
        else:
            waiting += [one[: braces.start()] + part + one[braces.end() :] for part in braces[1].split(",")]
        if len(waiting) + len(done) > _MAX_ALTERNATIVES:
            raise Failure("invalid_input", f"`{argument}` stands for more than {_MAX_ALTERNATIVES} patterns.")
    return done


@lru_cache(maxsize=1024)
def _name_pattern(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
