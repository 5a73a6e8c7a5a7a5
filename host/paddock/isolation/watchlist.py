"""Changes of guarded paths during a run: new ones, and changed ones that no mechanism protected.

The host cannot prevent a new file in a writable folder, but it can report it. It also reports a change where the
isolation level has no means against it, and a link that leads elsewhere by now.
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
    """The fields that distinguish one state of a file from another; the time of its last change cannot be set back."""

    kind: int
    inode: int
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class GuardedChange:
    """A guarded path that is new, or has changed."""

    path: Path
    what: Literal["appeared", "changed"]


@dataclass(frozen=True, slots=True)
class WatchReport:
    """The changes, by path; `is_complete` is false where there is more by now than is looked at."""

    changes: tuple[GuardedChange, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Watchlist:
    """The state of everything guarded in some folders, to be compared with a later one."""

    guarded: tuple[GuardedPaths, ...]
    home: Path
    kept: frozenset[Path]
    granted: frozenset[Path]
    seen: Mapping[Path, tuple[_Seen, ...]]

    @classmethod
    def take(
        cls, guarded: Iterable[GuardedPaths], home: Path, kept: Collection[Path] = (), granted: Collection[Path] = ()
    ) -> Self:
        """Note the state of the found paths, except those `kept` with all in them, or `granted` by themselves."""
        found = tuple(guarded)
        return cls(found, home, frozenset(kept), frozenset(granted), dict(_states(found)))

    def report(self) -> WatchReport:
        """Return the differences by now; a removed path is no danger."""
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
    """Yield the state of a path, and of the entries directly in it."""
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
