"""Count the bytes of unlinked files of a folder that a process tree still holds: no walk over the folder finds them.

A file without a name takes room as long as a thread has it open, in any table of descriptors, or a process has it
mapped. The code does plain reads of `/proc`, a millisecond or less for a worker; it is for a thread that may wait. Some
files cannot be seen: those on their way through a socket; mapped files whose descriptor was closed, which only an
administrator may look at; and all files of a process that may not be looked into. They are `hidden`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from paddock.workers.limits.process_tree import is_same, read_whole, sent_descriptors, unless_gone

_BLOCK_BYTES: Final = 512
_MAX_DESCRIPTORS: Final = 100_000  # that are looked at, of all processes together
_MAX_MAPS_BYTES: Final = 32 << 20  # of the kernel's list of mappings: some 300 000 of them
_KCMP_FILES: Final = 2  # from <linux/kcmp.h>
_ENDED: Final = (b"Z", b"X")  # in the spelling of /proc/<pid>/stat
_DELETED: Final = b" (deleted)"


@dataclass(frozen=True, slots=True)
class Unlinked:
    """The bytes of files that could be looked at, and whether there may be others."""

    held: int = 0
    hidden: bool = False


class UnlinkedFiles:
    """Files that once had a name in `folder`, which no process can mount, or see under any path but this one."""

    def __init__(self, folder: Path) -> None:
        self._paths = tuple({os.fsencode(path) for path in (folder, folder.resolve())})
        self._written = tuple(path.replace(b"\n", rb"\012") for path in self._paths)  # as /proc/<pid>/maps spells it

    def held_by(self, pids: Iterable[int], most: int) -> Unlinked:
        """Return what processes hold; counting stops beyond `most`. A process that is gone holds nothing."""
        count = _Count(self._paths, self._written, most)
        threads = {pid: _threads(pid) for pid in pids}
        # First the open files of all processes: they also show the size of mapped files.
        for look in (count.look_at_descriptors, count.look_at_mappings):
            for pid in threads:
                if not count.is_done:
                    look(pid, threads[pid])
        return Unlinked(count.held, count.hidden)


@dataclass(slots=True)
class _Count:
    """One look at all processes, in which each file counts once."""

    paths: tuple[bytes, ...]
    written: tuple[bytes, ...]
    most: int
    held: int = 0
    hidden: bool = False
    _files: set[tuple[int, int]] = field(default_factory=set)
    _sockets: set[int] = field(default_factory=set)
    _descriptors: int = 0
    _maps_bytes: int = 0

    @property
    def is_done(self) -> bool:
        return self.held > self.most

    def look_at_descriptors(self, pid: int, threads: Iterable[int]) -> None:
        """Look at what a process has open, in each of the tables that its threads have."""
        seen: list[int] = []
        for thread in threads:
            with self._or_hidden(pid, thread):
                if not any(is_same(_KCMP_FILES, thread, other) for other in seen):
                    seen.append(thread)
                    self._look_at_table(f"/proc/{pid}/task/{thread}")

    def look_at_mappings(self, pid: int, threads: Iterable[int]) -> None:
        """Look at a process's mappings, by any thread that still runs; an ended thread shows none."""
        for thread in threads:
            with self._or_hidden(pid, thread):
                if maps := read_whole(f"/proc/{pid}/task/{thread}/maps"):
                    self._look_at_maps(pid, maps)
                    return

    def _look_at_table(self, process: str) -> None:
        for name in os.listdir(f"{process}/fd"):
            self._descriptors += 1
            if self._descriptors > _MAX_DESCRIPTORS:
                self.hidden = True
            if self._descriptors > _MAX_DESCRIPTORS or self.is_done:
                return
            with unless_gone():
                path = f"{process}/fd/{name}"
                found = os.stat(path)
                if stat.S_ISSOCK(found.st_mode):
                    self._look_at_socket(f"{process}/fdinfo/{name}", found.st_ino)
                elif stat.S_ISREG(found.st_mode) and not found.st_nlink and self._was_in_folder(path):
                    self._add(found)

    def _look_at_socket(self, path: str, inode: int) -> None:
        """Note descriptors that were sent and not yet received: they are open in no process, and keep their files."""
        if inode in self._sockets:
            return
        self._sockets.add(inode)
        if sent_descriptors(path):
            self.hidden = True

    def _look_at_maps(self, pid: int, maps: bytes) -> None:
        self._maps_bytes += len(maps)
        if self._maps_bytes > _MAX_MAPS_BYTES:
            self.hidden = True
        if self._maps_bytes > _MAX_MAPS_BYTES or not any(path in maps for path in self.written):
            return
        for line in filter(None, maps.split(b"\n")):
            area, _, _, _, inode, *path = line.split(None, 5)
            if path and path[0].endswith(_DELETED) and path[0].startswith(tuple(one + b"/" for one in self.written)):
                with unless_gone():
                    self._look_at_mapping(f"/proc/{pid}/map_files/{area.decode()}", int(inode))

    def _look_at_mapping(self, path: str, inode: int) -> None:
        try:
            found = os.stat(path)
        except PermissionError:
            if all(inode != known for _, known in self._files):
                self.hidden = True
            return
        if not found.st_nlink:
            self._add(found)

    def _was_in_folder(self, path: str) -> bool:
        """Return whether a file without a name had its last one in the folder; in doubt, it had."""
        try:
            last = os.readlink(os.fsencode(path))
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return True
            raise
        return last.startswith(tuple(one + b"/" for one in self.paths))

    def _add(self, found: os.stat_result) -> None:
        if (found.st_dev, found.st_ino) not in self._files:
            self._files.add((found.st_dev, found.st_ino))
            self.held += found.st_blocks * _BLOCK_BYTES

    @contextmanager
    def _or_hidden(self, pid: int, thread: int) -> Iterator[None]:
        """Note what cannot be read as hidden, unless it is gone, or has ended and was not waited for."""
        with unless_gone():
            try:
                yield
            except (FileNotFoundError, ProcessLookupError):
                raise
            except OSError:
                if not _has_ended(pid, thread):
                    self.hidden = True


def _threads(pid: int) -> list[int]:
    with unless_gone():
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []


def _has_ended(pid: int, thread: int) -> bool:
    line = read_whole(f"/proc/{pid}/task/{thread}/stat")
    return line[line.rindex(b")") + 2 :][:1] in _ENDED
