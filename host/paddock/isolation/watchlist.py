"""Changes of guarded paths during a run: new ones, and changed ones that no mechanism protected.

The host cannot prevent a new file in a writable folder, but it can report it. It also reports a change where the
isolation level has no means against it, a link that leads elsewhere by now, and a protected file that was changed by
another of its names: a mount keeps one name of a file, and hard links are others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from paddock.policy.guarded_paths import GuardedPaths, keeps

_MAX_WATCHED: Final = 1000  # entries of one folder of hooks
_BY_ANOTHER_NAME: Final = "changed, by another name of it (a hard link),"


class _Seen(NamedTuple):
    """The fields that distinguish one state of a file from another; the time of its last change cannot be set back.

    `name` is empty for a guarded path itself, and else that of the entry in it. `links` counts the names of the file.
    """

    name: str
    links: int
    kind: int
    inode: int
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class GuardedChange:
    """A guarded path that is new, or has changed: `what` says which, and how."""

    path: Path
    what: str


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
        opened = {place for one in self.guarded for place in one.open}
        changes: dict[Path, GuardedChange] = {}
        for path, state in _states(now):
            if path not in self.granted and not keeps(self.kept, opened, path):
                if self.seen.get(path) != state:
                    changes[path] = GuardedChange(path, "changed" if path in self.seen else "appeared")
            elif path not in self.granted:
                for file in self._changed_by_another_name(path, state):
                    changes[file] = GuardedChange(file, _BY_ANOTHER_NAME)
        return WatchReport(tuple(changes[path] for path in sorted(changes)), all(one.is_complete for one in now))

    def _changed_by_another_name(self, path: Path, now: Iterable[_Seen]) -> Iterator[Path]:
        """Yield the files at a protected path that had several names, and are the same ones with a later change."""
        earlier = {one.inode: one for one in self.seen.get(path, ()) if stat.S_ISREG(one.kind) and one.links > 1}
        for one in now:
            before = earlier.get(one.inode)
            if before is not None and (before.size, before.changed) != (one.size, one.changed):
                yield path / one.name


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
        yield _seen("", info)
        if stat.S_ISDIR(info.st_mode):
            with os.scandir(path) as entries:
                below = sorted(entries, key=lambda entry: entry.name)
            for entry in below[:_MAX_WATCHED]:
                yield _seen(entry.name, entry.stat(follow_symlinks=False))
    except OSError:
        return


def _seen(name: str, info: os.stat_result) -> _Seen:
    return _Seen(name, info.st_nlink, stat.S_IFMT(info.st_mode), info.st_ino, info.st_size, info.st_ctime_ns)
