"""Read from outside the resources of the tree of processes below one process: tasks, processor time and memory.

The code does plain reads of `/proc`, some 40 microseconds for an init and its worker; `psutil` takes thirty times as
long among 150 processes, because it searches the whole machine for children. Processes may come and go meanwhile:
one that is gone is skipped, one that is new may be seen next time. A value that cannot be read for another reason is an
OSError, never a small number. Memory is measured in three ways, each costlier and more exact than the one before:

* resident memory, with files, and shared pages in each process: no less than the tree has, swap apart;
* resident or swapped memory that belongs to no file, shared pages still in each process, less the tree's memory at its
  beginning. A child that uses its parent's memory until it starts a program counts for nothing, where the kernel
  reports that;
* the same with each shared page divided among its processes. The kernel walks all pages for it, 9 ms for a GiB, and
  waits for a lock that the process can hold: only for threads that may wait.

None of them sees memory that no process has mapped: files in a tmpfs, buffers in the kernel (`unmapped_memory`).
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from paddock.plan.units import size_text
from paddock_sandbox.syscalls import call

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CHUNK_BYTES = 1 << 16
_MOST_TASKS = 4096  # a bound on the work for a tree without a bound of its own
_SCAN_SECONDS = 0.1
_KCMP_VM = 1  # from <linux/kcmp.h>
_VFORK_SECONDS = 0.05  # from the fork of such a child to its program, on a busy machine

_END_MS = 1000  # for the kernel to free what a killed process had
_EXITING = 4  # PF_EXITING, among the flags of a thread
_LOOKS = 10  # at a process whose threads end meanwhile
_NEXT_LOOK_SECONDS = 0.05  # all looks together are enough for a process that ends as a whole

_Found = TypeVar("_Found")

# A file that was opened in time and is read too late returns ESRCH.
_GONE = (errno.ENOENT, errno.ESRCH)


@dataclass(frozen=True, slots=True)
class TreeReading:
    """The processes below a root at one time, and the sums over them.

    `tasks` are processes (including those not yet waited for) and their threads. `cpu_seconds` includes the time of
    ended processes that were waited for. `descriptors` are those of each process, with shared ones counted in each. If
    `is_complete` is false, the tree has more tasks than were asked for, and its sums are too low.
    """

    pids: tuple[int, ...]
    tasks: int
    cpu_seconds: float
    resident_bytes: int
    descriptors: int = 0
    is_complete: bool = True


class ProcessChildren(Protocol):
    """Knows the children of a process."""

    def of(self, pid: int, threads: int) -> list[int]:
        """Return the children of a process with so many threads; none, if it is gone."""
        ...


class ChildrenFromKernel:
    """Asks the kernel for a process's children."""

    @staticmethod
    def are_listed() -> bool:
        """Return whether this kernel keeps such lists (CONFIG_PROC_CHILDREN)."""
        return os.path.exists(f"/proc/self/task/{os.getpid()}/children")

    def of(self, pid: int, threads: int) -> list[int]:
        """Return the children of a process with so many threads; none, if it is gone."""
        found: list[int] = []
        try:
            # A child belongs to the thread that forked it.
            for thread in (pid,) if threads == 1 else os.listdir(f"/proc/{pid}/task"):
                found += map(int, read_whole(f"/proc/{pid}/task/{thread}/children").split())
        except OSError as error:
            _raise_unless_gone(error)
        return found


class ChildrenFromScan:
    """Finds children by asking every process of the machine for its parent, at most every tenth of a second."""

    def __init__(self) -> None:
        self._children: dict[int, list[int]] = {}
        self._scanned_at = float("-inf")

    def of(self, pid: int, threads: int) -> list[int]:
        """Return the children that a process had at the latest scan."""
        if time.monotonic() - self._scanned_at > _SCAN_SECONDS:
            self._scan()
        return self._children.get(pid, [])

    def _scan(self) -> None:
        self._children = {}
        for name in os.listdir("/proc"):
            if name.isdecimal() and (stat := _stat(int(name))) is not None:
                self._children.setdefault(stat.parent, []).append(int(name))
        self._scanned_at = time.monotonic()


_children: ProcessChildren = ChildrenFromKernel() if ChildrenFromKernel.are_listed() else ChildrenFromScan()


class ProcessTree:
    """The processes below one root, which is not counted itself: it is the init of a worker."""

    def __init__(self, root: int, children: ProcessChildren = _children) -> None:
        """Remember the root, and the memory that the processes below it inherited so far.

        Raises:
            ProcessLookupError: there is no such process.
        """
        self.root = root
        self._children = children
        stat = _stat(root)
        if stat is None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), f"/proc/{root}")
        self._born = stat.born
        reading = self.read()
        self._inherited = {pid: _unshared_bytes(pid) for pid in reading.pids} if reading else {}

    def read(self, most_tasks: int | None = None) -> TreeReading | None:
        """Return a reading of the tree; it stops once it has more tasks than this. None when the root is gone."""
        most_tasks = _MOST_TASKS if most_tasks is None else most_tasks
        root = _stat(self.root)
        if root is None or root.born != self._born:
            return None
        # Of the root itself, only the time of children that it waited for.
        pids, tasks, ticks, pages, descriptors = [], 0, root.waited_ticks, 0, 0
        unread = [*self._children.of(self.root, root.threads)]
        while unread:
            pid = unread.pop()
            stat = _stat(pid)
            if stat is None:
                continue
            pids.append(pid)
            tasks += stat.threads
            ticks += stat.ticks + stat.waited_ticks
            pages += stat.pages
            descriptors += descriptors_of(stat.speaker)
            if tasks > most_tasks:
                return _reading(pids, tasks, ticks, pages, descriptors, is_complete=False)
            unread += self._children.of(pid, stat.threads)
        return _reading(pids, tasks, ticks, pages, descriptors)

    def estimate(self, pids: Iterable[int]) -> int:
        """Return the bytes of these processes, less the bytes of each when the tree was first seen.

        Shared pages count in each process.
        """
        lenders, _ = _lenders(frozenset(pids))
        return sum(max(0, _unshared_bytes(pid) - self._inherited.get(pid, 0)) for pid in lenders)

    def measure(self, pids: Iterable[int]) -> int:
        """Return the bytes of these processes; may take long. A process that cannot be measured is estimated."""
        lenders, is_doubtful = _lenders(frozenset(pids))
        if is_doubtful:  # a process that borrowed memory has some of its own by then, or none
            time.sleep(_VFORK_SECONDS)
        total = 0
        for pid in lenders:
            measured = _proportional_bytes(pid)
            total += self.estimate([pid]) if measured is None else measured
        return total

    def end_largest(self, spared: int) -> str:
        """End the process with the most memory but for one; return its name and memory, or nothing if there is none.

        Waits until that memory is free, for a second at most.
        """
        reading = self.read()
        lenders, _ = _lenders(frozenset(reading.pids if reading is not None else ()))
        sizes = {pid: _unshared_bytes(pid) for pid in lenders - {spared}}
        if not sizes:
            return ""
        largest = max(sizes, key=sizes.__getitem__)
        what = f"{name_of(largest)} ({size_text(sizes[largest])})"
        with unless_gone(), open(os.pidfd_open(largest), "rb", buffering=0) as pidfd:
            # Looked at again: if the number is in the tree now, the descriptor is of that process, or of a dead one.
            reading = self.read()
            if reading is not None and largest in reading.pids:
                signal.pidfd_send_signal(pidfd.fileno(), signal.SIGKILL)
                poller = select.poll()
                poller.register(pidfd, select.POLLIN)
                poller.poll(_END_MS)
        return what


def sent_descriptors(fdinfo: str) -> int:
    """Return how many descriptors were sent to a socket and not received: no process has them, yet they take memory."""
    lines = read_whole(fdinfo).split(b"\n")
    return sum(int(line.partition(b":")[2]) for line in lines if line.startswith(b"scm_fds:"))


def is_same(kind: int, one: int, other: int, descriptor: int = 0) -> bool:
    """Return whether two processes or threads share a thing of this kind; False where the kernel does not say."""
    try:
        return call("kcmp", one, other, kind, descriptor, descriptor) == 0
    except OSError:
        return False


def ancestors_of(pid: int) -> tuple[int, ...]:
    """Return a process and those above it, the nearest first.

    Raises:
        ProcessLookupError: one of them is gone.
    """
    found = [pid]
    while len(found) < _MOST_TASKS:
        stat = _stat(found[-1])
        if stat is None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), f"/proc/{found[-1]}")
        if stat.parent == 0:
            break
        found.append(stat.parent)
    return tuple(found)


def name_of(pid: int) -> str:
    """Return the name of the program that a process runs, as the process chose it; `?` once it is gone."""
    with unless_gone():
        return f"`{read_whole(f'/proc/{pid}/comm').decode(errors='replace').strip()}`"
    return "`?`"


def swapped_bytes() -> int:
    """Return how much the whole machine has swapped out; no tree can have more there."""
    try:
        rows = read_whole("/proc/swaps").splitlines()[1:]
    except FileNotFoundError:
        return 0  # a kernel without swap
    return sum(int(row.split()[3]) for row in rows) * 1024


class _Stat(NamedTuple):
    """The used fields of `/proc/<pid>/stat`."""

    parent: int
    threads: int
    ticks: int
    waited_ticks: int
    pages: int
    mapped_bytes: int
    born: int
    speaker: int


def _stat(pid: int) -> _Stat | None:
    """Return the kernel's record of a process, or None when it is gone."""
    try:
        fields = _stat_fields(pid)
        if (speaker := _speaker_of(pid, fields)) != pid:
            fields = _stat_fields(speaker)
    except OSError as error:
        _raise_unless_gone(error)
        return None
    return _Stat(
        parent=int(fields[1]),
        threads=int(fields[17]),
        ticks=int(fields[11]) + int(fields[12]),
        waited_ticks=int(fields[13]) + int(fields[14]),
        pages=int(fields[21]),
        mapped_bytes=int(fields[20]),
        born=int(fields[19]),
        speaker=speaker,
    )


def _stat_fields(pid: int) -> list[bytes]:
    """Return the fields after the program's name, which may itself hold blanks and parentheses."""
    line = read_whole(f"/proc/{pid}/stat")
    return line[line.rindex(b")") + 2 :].split()


def ask(pid: int, look: Callable[[int], _Found]) -> _Found | None:
    """Return what `look` sees of a process, given the thread that can be asked; None if it cannot be seen.

    A thread that ends shows no descriptors any more, while the others go on using them. So a look counts only if the
    thread was there to its end. A process can have the oldest of its threads end at each look.

    Raises:
        FileNotFoundError: it is gone; or a ProcessLookupError.
        OSError: `look` raised it.
    """
    for number in range(_LOOKS):
        if number:
            time.sleep(_NEXT_LOOK_SECONDS)
        speaker = _speaker_of(pid, _stat_fields(pid))
        try:
            found = look(speaker)
        except OSError:
            if not _is_ending(speaker) or _has_ended_but_for_its_first_thread(pid):
                raise
        else:
            if not _is_ending(speaker) or _has_ended_but_for_its_first_thread(pid):
                return found
    return None


def _has_ended_but_for_its_first_thread(pid: int) -> bool:
    try:
        return int(_stat_fields(pid)[17]) <= 1
    except OSError as error:
        _raise_unless_gone(error)
        return True


def _is_ending(thread: int) -> bool:
    """Return whether a thread is gone, or has begun to end and may have given up its descriptors."""
    try:
        fields = _stat_fields(thread)
    except OSError as error:
        _raise_unless_gone(error)
        return True
    return fields[0] in (b"Z", b"X") or int(fields[6]) & _EXITING != 0


def _speaker_of(pid: int, fields: list[bytes]) -> int:
    """Return the thread that can be asked for a process's memory.

    A first thread that has ended reports no memory, while the other threads go on using it.
    """
    if fields[0] in (b"Z", b"X") and int(fields[17]) > 1:
        return next((int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != pid), pid)
    return pid


def _unshared_bytes(pid: int) -> int:
    """Return a process's resident or swapped bytes that belong to no file; 0 when it is gone."""
    return _sum_of(_fields(pid, "status"), b"RssAnon", b"RssShmem", b"VmSwap")


def _proportional_bytes(pid: int) -> int | None:
    """Return the same, with shared pages divided; 0 when the process is gone, None when that may not be read."""
    try:
        fields = _fields(pid, "smaps_rollup")
    except PermissionError:
        return None
    if fields and b"Pss_Anon" not in fields:  # before Linux 5.3 not counted apart from files
        return _sum_of(fields, b"Pss", b"SwapPss")
    return _sum_of(fields, b"Pss_Anon", b"Pss_Shmem", b"SwapPss")


def _lenders(pids: frozenset[int]) -> tuple[frozenset[int], bool]:
    """Return the processes, except those that use their parent's memory for a moment, as children of vfork do.

    Also return whether there may be more of these, because the kernel did not say.
    """
    borrowers = set()
    is_doubtful = False
    for pid in pids:
        stat = _stat(pid)
        parent = _stat(stat.parent) if stat is not None and stat.parent in pids else None
        if stat is None or parent is None or stat.mapped_bytes != parent.mapped_bytes:
            continue
        try:
            if call("kcmp", pid, stat.parent, _KCMP_VM, 0, 0) == 0:
                borrowers.add(pid)
        except OSError:
            is_doubtful = True  # as in many containers
    return pids - borrowers, is_doubtful


def _fields(pid: int, name: str) -> dict[bytes, bytes]:
    """Return a file of lines with names, or nothing when the process is gone."""
    try:
        lines = read_whole(f"/proc/{_speaker_of(pid, _stat_fields(pid))}/{name}").split(b"\n")
    except OSError as error:
        _raise_unless_gone(error)
        return {}
    return dict(line.split(b":", 1) for line in lines if b":" in line)


def _sum_of(fields: dict[bytes, bytes], *names: bytes) -> int:
    return sum(int(fields[name].split()[0]) for name in names if name in fields) * 1024


def _reading(
    pids: list[int], tasks: int, ticks: int, pages: int, descriptors: int, *, is_complete: bool = True
) -> TreeReading:
    return TreeReading(tuple(pids), tasks, ticks / _TICKS_PER_SECOND, pages * _PAGE_BYTES, descriptors, is_complete)


def descriptors_of(pid: int) -> int:
    """Return how many descriptors a process has open, or has had at once; 0 when it is gone."""
    try:
        if count := os.stat(f"/proc/{pid}/fd").st_size:
            return count  # from Linux 6.2 on
    except OSError as error:
        _raise_unless_gone(error)
        return 0
    return int(_fields(pid, "status").get(b"FDSize", b"0"))


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in _GONE:
        raise error


@contextmanager
def unless_gone() -> Iterator[None]:
    """End the block, without an error, at a process that is gone."""
    try:
        yield
    except OSError as error:
        _raise_unless_gone(error)


def read_whole(path: str) -> bytes:
    """Return all of a file of `/proc`, which has no size before it is read."""
    # Less than half the time of open().
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, _CHUNK_BYTES)
        while more := os.read(fd, _CHUNK_BYTES):
            data += more
        return data
    finally:
        os.close(fd)
