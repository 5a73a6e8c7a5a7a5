"""Count the memory that a tree of processes holds but none of them maps, which is why no process's size shows it.

It consists of unread bytes in sockets and pipes, unread events of watched folders, watches, page tables, the kernel's
records of mappings, and the inodes of a private folder. A value that cannot be measured counts as the most it can be.
Memory that takes a system call which the filter refuses is not looked for. The code does plain reads of `/proc`, a
third of a millisecond for a worker; it is for a thread that may wait.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from paddock.workers.limits.process_tree import ask, descriptors_of, is_same, read_whole, sent_descriptors, unless_gone
from paddock_sandbox.socket_memory import SOCKET_BYTES, internet_sockets, open_inquiry, unix_sockets

_KIB: Final = 1024
_DESCRIPTOR_BYTES: Final = 512
_PIPE_BYTES: Final = 65 * _KIB  # sixteen pages, since it may not be made larger
_WATCH_BYTES: Final = 216  # of a descriptor in a set of them
_EVENT_BYTES: Final = 512  # of a file with a long name
_MAPPING_BYTES: Final = 320
_INODE_BYTES: Final = 1536  # of a file in a tmpfs, with a long name
_MAPS_BYTES: Final = 32 << 20
_SENT_BYTES: Final = 4 << 20  # of a descriptor on its way: a set of watches of all that a process can have open
_HIDDEN_SECONDS: Final = 4.0
_KCMP_FILE: Final = 0  # from <linux/kcmp.h>
_EVENTS: Final = "anon_inode:inotify"
_WATCHES: Final = "anon_inode:[eventpoll]"


def _setting(path: str, otherwise: int) -> int:
    try:
        with open(f"/proc/sys/{path}", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return otherwise


SOCKET_MOST: Final = 2 * _setting("net/core/wmem_default", 212_992) + SOCKET_BYTES
"""What a socket can hold unread whose buffer may not be made larger: its buffer's size, and one message beyond."""

_QUEUE_BYTES: Final = _EVENT_BYTES * _setting("fs/inotify/max_queued_events", 16384)


class UnmappedMemory:
    """Counts for one tree, until it is closed.

    `inquiry` answers for the network namespace that the tree has to itself; without one, its sockets are looked for
    among those of this process's namespace. `private_folder` is a tmpfs of its own, as its processes see it.
    """

    def __init__(self, inquiry: socket.socket | None = None, private_folder: str = "") -> None:
        self._inquiry = inquiry
        self._is_its_own = inquiry is not None
        self._folder = private_folder
        self._hidden_since: float | None = None

    def close(self) -> None:
        """Release the means of measuring."""
        if self._inquiry is not None:
            self._inquiry.close()

    def held_by(self, pids: Iterable[int], most: int) -> int:
        """Return the bytes that processes hold; counting stops beyond `most`. A process that is gone holds nothing.

        The result is also more than `most` if something that has to be counted has been invisible for four seconds.

        Raises:
            OSError: it cannot be read.
        """
        count = _Count(most)
        pids = tuple(pids)
        if self._folder:
            count.look_at_folder(pids, self._folder)
        sockets = self._all_sockets()
        if sockets is not None:
            count.add(sum(sockets.values()))
        for pid in pids:
            if count.is_beyond:
                break
            with unless_gone():
                # A thread that ends shows nothing, so another look may begin where the first one did.
                before = count
                seen = ask(pid, partial(_seen, before))
                count = replace(before, held=most + 1) if seen is None else seen
        if sockets is None:
            count.add(self._bytes_of(count.sockets))
            is_hidden = bool(count.sent)
        else:
            hidden = {inode for inode in sockets if inode > 0} - count.sockets
            # What is gone now was closed during the look, not on its way.
            is_hidden = bool(hidden and hidden & (self._all_sockets() or sockets).keys())
        return max(count.held, most + 1) if self._is_hidden_for_long(is_hidden) and not count.is_beyond else count.held

    def _is_hidden_for_long(self, is_hidden: bool) -> bool:
        """Return whether sockets have been in transit for long: their contents are invisible meanwhile."""
        if not is_hidden:
            self._hidden_since = None
            return False
        now = time.monotonic()
        self._hidden_since = self._hidden_since or now
        return now - self._hidden_since > _HIDDEN_SECONDS

    def _all_sockets(self) -> dict[int, int] | None:
        """Return what sockets of the tree's own namespace hold, by inode; None where it has none that can be asked.

        Those of a network have no inode here: the host has its listeners.
        """
        if not self._is_its_own or self._inquiry is None:
            return None
        try:
            own = dict(unix_sockets(self._inquiry, SOCKET_MOST))
            return {**own, 0: own.get(0, 0) + sum(held for _, held in internet_sockets(self._inquiry))}
        except OSError:
            return None  # a kernel without such an inquiry

    def _bytes_of(self, inodes: set[int]) -> int:
        """Return what these sockets of a shared namespace hold; where that is not measured, the most they can."""
        if not inodes:
            return 0
        found: dict[int, int] = {}
        try:
            self._inquiry = self._inquiry or open_inquiry()
            for each in (partial(unix_sockets, waiting=SOCKET_MOST), internet_sockets):
                if not inodes <= found.keys():
                    found |= {inode: held for inode, held in each(self._inquiry) if inode in inodes}
        except OSError:
            pass
        return sum(found.get(inode, SOCKET_MOST) for inode in inodes)


def _seen(before: _Count, speaker: int) -> _Count:
    count = before.copy()
    count.look_at(speaker)
    return count


@dataclass(slots=True)
class _Count:
    """One look at all processes, in which each pipe and socket counts once."""

    most: int
    held: int = 0
    sent: int = 0
    sockets: set[int] = field(default_factory=set)
    _pipes: set[int] = field(default_factory=set)
    _kept: dict[str, list[int]] = field(default_factory=dict)  # numbers of descriptors, and their processes

    def copy(self) -> _Count:
        """Return a count that goes on from here."""
        kept = {number: [*pids] for number, pids in self._kept.items()}
        return replace(self, sockets={*self.sockets}, _pipes={*self._pipes}, _kept=kept)

    @property
    def is_beyond(self) -> bool:
        return self.held > self.most

    def add(self, size: int) -> None:
        """Count memory that was found elsewhere."""
        self.held += size

    def look_at_folder(self, pids: Iterable[int], folder: str) -> None:
        """Look at the one private folder that all these processes have."""
        for pid in pids:
            with unless_gone():
                system = os.statvfs(f"/proc/{pid}/root{folder}")
                self.held += (system.f_files - system.f_ffree) * _INODE_BYTES
                return

    def look_at(self, pid: int) -> None:
        """Look at one process, by a thread of it that can be asked."""
        try:
            self._look_at_mappings(pid)
            for number in os.listdir(f"/proc/{pid}/fd"):
                if self.is_beyond:
                    return
                with unless_gone():
                    self._look_at_descriptor(pid, number)
        except PermissionError:
            # The process ended meanwhile, and has nothing open; or it runs a program that may not be read.
            self.held += descriptors_of(pid) * SOCKET_MOST

    def _look_at_mappings(self, pid: int) -> None:
        with unless_gone(), open(f"/proc/{pid}/maps", "rb", buffering=0) as maps:
            read = 0
            while read < _MAPS_BYTES and not self.is_beyond and (data := maps.read(1 << 18)):
                read += len(data)
                self.held += data.count(b"\n") * _MAPPING_BYTES
        with unless_gone():
            # Not by `splitlines`: a process may have a carriage return in its name, and any text behind that.
            lines = (line.split() for line in read_whole(f"/proc/{pid}/status").split(b"\n"))
            self.held += sum(int(fields[1]) for fields in lines if fields and fields[0] == b"VmPTE:") * _KIB

    def _look_at_descriptor(self, pid: int, number: str) -> None:
        self.held += _DESCRIPTOR_BYTES
        path = f"/proc/{pid}/fd/{number}"
        info = os.stat(path)
        if stat.S_ISSOCK(info.st_mode):
            if info.st_ino not in self.sockets:
                self.sockets.add(info.st_ino)
                sent = sent_descriptors(f"/proc/{pid}/fdinfo/{number}")
                self.sent += sent
                self.held += sent * _SENT_BYTES
        elif stat.S_ISFIFO(info.st_mode):
            self.held += _PIPE_BYTES if info.st_ino not in self._pipes else 0
            self._pipes.add(info.st_ino)
        elif not stat.S_IFMT(info.st_mode):
            self._look_at_kept(pid, number, os.readlink(path))

    def _look_at_kept(self, pid: int, number: str, kind: str) -> None:
        if kind not in (_EVENTS, _WATCHES):
            return
        others = self._kept.setdefault(number, [])
        if any(is_same(_KCMP_FILE, pid, other, int(number)) for other in others):
            return
        others.append(pid)
        if kind == _EVENTS:
            self.held += _QUEUE_BYTES
        else:
            self.held += read_whole(f"/proc/{pid}/fdinfo/{number}").count(b"\ntfd:") * _WATCH_BYTES
