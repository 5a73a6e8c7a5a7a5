"""What became of guarded paths during a run: those that appeared, and those that changed where nothing kept them.

A new file cannot be kept from being made in a folder that may be written to; a person can be told of it. So can one of
a change where the isolation level has no means against it, and of a link that leads elsewhere by now.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from paddock.policy.guarded_paths import GuardedPaths

_MAX_WATCHED: Final = 1000  # entries of one folder of hooks


class _Seen(NamedTuple):
    """What tells one state of a file from another; nobody can set the time of its last change back."""

    kind: int
    inode: int
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class GuardedChange:
    """Something guarded that was not there before, or was otherwise."""

    path: Path
    what: Literal["appeared", "changed"]


@dataclass(frozen=True, slots=True)
class WatchReport:
    """What changed, by path; `is_complete` is false where there is more by now than is looked at."""

    changes: tuple[GuardedChange, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Watchlist:
    """The state that everything guarded in some folders was in, to be compared with what it is later."""

    guarded: tuple[GuardedPaths, ...]
    home: Path
    kept: frozenset[Path]
    granted: frozenset[Path]
    seen: Mapping[Path, tuple[_Seen, ...]]

    @classmethod
    def take(
        cls, guarded: Iterable[GuardedPaths], home: Path, kept: Collection[Path] = (), granted: Collection[Path] = ()
    ) -> Self:
        """Note the present state of what was found, but for what is `kept` with all in it, or `granted` by itself."""
        found = tuple(guarded)
        return cls(found, home, frozenset(kept), frozenset(granted), dict(_states(found)))

    def report(self) -> WatchReport:
        """Return what is otherwise now; what is gone is no danger."""
        now = [GuardedPaths.find(one.folder, self.home).with_earlier([one]) for one in self.guarded]
        changes = {
            path: GuardedChange(path, "changed" if path in self.seen else "appeared")
            for path, state in _states(now)
            if not self._is_ignored(path) and self.seen.get(path) != state
        }
        return WatchReport(tuple(changes[path] for path in sorted(changes)), all(one.is_complete for one in now))

    def _is_ignored(self, path: Path) -> bool:
        return path in self.granted or any(one in self.kept for one in (path, *path.parents))


def _states(guarded: Iterable[GuardedPaths]) -> Iterator[tuple[Path, tuple[_Seen, ...]]]:
    for one in guarded:
        for path in one.watched:
            state = tuple(_state(path))
            if state:
                yield path, state


def _state(path: Path) -> Iterator[_Seen]:
    """Yield the state of a path, and of what is directly in it."""
    try:
        info = os.lstat(path)
        yield _seen(info)
        if stat.S_ISDIR(info.st_mode):
            with os.scandir(path) as entries:
                below = sorted(entries, key=lambda entry: entry.name)
            for entry in below[:_MAX_WATCHED]:
                yield _seen(entry.stat(follow_symlinks=False))
    except OSError:
        return


def _seen(info: os.stat_result) -> _Seen:
    return _Seen(stat.S_IFMT(info.st_mode), info.st_ino, info.st_size, info.st_ctime_ns)
