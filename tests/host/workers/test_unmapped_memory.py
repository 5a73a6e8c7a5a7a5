"""What a tree holds and does not map is counted, and each thing once, whoever has it."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from textwrap import indent

import pytest

from host.workers.trees import RunningTree, tree
from paddock.workers import limits
from paddock.workers.limits import unmapped_memory
from paddock.workers.limits.process_tree import ProcessTree
from paddock.workers.limits.record_locks import record_locks
from paddock.workers.limits.unmapped_memory import SOCKET_MOST, UnmappedMemory
from paddock_sandbox.socket_memory import open_inquiry, unix_sockets
from paddock_sandbox.syscalls import call

_KIB, _MIB = 1 << 10, 1 << 20
_ALL = 1 << 40
_SLACK = 128 * _KIB  # what the program needs besides

_PREPARED = """
import fcntl, select, socket, struct, tempfile
libc = ctypes.CDLL(None)
def filled():
    ends = socket.socketpair()
    ends[0].setblocking(False)
    try:
        while True:
            ends[0].send(bytes(1 << 14))
    except BlockingIOError:
        return ends
def lock(count):
    file = tempfile.TemporaryFile()
    for start in range(0, 2 * count, 2):
        fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, start, 1, 0))
    return file
kept = filled()
del kept
here()
os.read(begin[0], 1)
"""


def _pids(subject: RunningTree) -> tuple[int, ...]:
    reading = ProcessTree(subject.init_pid).read()
    assert reading is not None
    return reading.pids


def _goes_on(subject: RunningTree, voices: int = 1) -> tuple[int, ...]:
    """Let a tree go on until so many in it have said where they are; return its processes."""
    subject.begin()
    for _ in range(voices):
        subject.is_here()
    return _pids(subject)


@contextmanager
def _acted(act: str, voices: int = 1) -> Iterator[RunningTree]:
    """Run a tree that has prepared itself and acted."""
    with tree(f"{_PREPARED}{act}") as subject:
        _goes_on(subject)
        _goes_on(subject, voices)
        yield subject


def _more(act: str) -> int:
    """Return how much more is counted of a tree that has acted."""
    with tree(f"{_PREPARED}{act}\nhere()") as subject, closing(UnmappedMemory()) as count:
        before = count.held_by(_goes_on(subject), _ALL)
        return count.held_by(_goes_on(subject), _ALL) - before


def _can_compare() -> bool:
    """Return whether the kernel tells that two descriptors are of one file; containers refuse it."""
    try:
        return call("kcmp", os.getpid(), os.getpid(), 0, 0, 0) == 0
    except OSError:
        return False


_BY_TWO = "\nif os.fork() == 0: wait()"


@pytest.mark.parametrize("shared", ["", _BY_TWO], ids=["by one", "by two"])
@pytest.mark.parametrize(
    ("act", "least", "most"),
    [
        ("kept = [filled() for _ in range(8)]", 8 * 160 * _KIB, 8 * SOCKET_MOST),
        ("kept = [os.pipe() for _ in range(20)]", 20 * 64 * _KIB, 20 * 70 * _KIB),
        ("kept = [libc.inotify_init1(0) for _ in range(2)]", 16 * _MIB, 17 * _MIB),
        (
            r"kept = [libc.inotify_init1(0) for _ in range(2)]; libc.prctl(15, b'\rVmPTE: -999999')",
            16 * _MIB,
            17 * _MIB,
        ),
        (
            "ends = [select.epoll() for _ in range(40)]\n[e.register(f) for e in ends[20:] for f in ends[:20]]",
            0,
            _MIB,
        ),
    ],
    ids=["sockets", "pipes", "events", "a name that looks like a count", "watches"],
)
def test_what_is_kept_for_a_tree_is_counted_once(act: str, least: int, most: int, shared: str) -> None:
    own = 400 * _KIB if shared else 0  # the second process's tables and mappings
    if shared and "inotify" in act and not _can_compare():
        most *= 2  # what may be two queues counts as two
    assert least <= _more(act + shared) <= most + _SLACK + own


def test_nothing_more_is_counted_of_a_tree_that_does_nothing() -> None:
    assert _more("pass") < _SLACK


def test_a_descriptor_that_is_on_its_way_counts_for_the_most_it_can_hold() -> None:
    act = "near, far = socket.socketpair()\nsocket.send_fds(near, [b'x'], [0, 0])"
    assert _more(act) >= 8 * _MIB


def test_the_counting_ends_once_it_is_beyond_what_was_asked() -> None:
    with _acted("kept = [os.pipe() for _ in range(200)]\nhere()") as subject:
        assert _MIB < UnmappedMemory().held_by(_pids(subject), _MIB) < 2 * _MIB


def test_sockets_out_of_sight_for_long_are_beyond_any_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmapped_memory, "_HIDDEN_SECONDS", 0.0)
    # Of a namespace that others share all of theirs are in no process of the tree, as if they were on their way.
    count = UnmappedMemory(open_inquiry())
    assert count.held_by((), _ALL) < _ALL
    assert count.held_by((), _ALL) == _ALL + 1
    count.close()


def test_sockets_that_close_during_a_look_are_not_out_of_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmapped_memory, "_HIDDEN_SECONDS", 0.0)
    inodes = itertools.count(1)
    monkeypatch.setattr(unmapped_memory, "unix_sockets", lambda inquiry, waiting: [(next(inodes), 0)])
    count = UnmappedMemory(open_inquiry())
    assert [count.held_by((), _ALL) <= _ALL for _ in range(3)] == [True] * 3
    count.close()


def test_connections_that_nobody_accepts_count_as_much_as_they_can_hold() -> None:
    with socket.socket(socket.AF_UNIX) as listener, open_inquiry() as inquiry:
        listener.bind(f"\0paddock-{os.getpid()}-{time.monotonic_ns()}")
        listener.listen(8)
        inode = os.fstat(listener.fileno()).st_ino
        before = dict(unix_sockets(inquiry, _MIB))[inode]
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(listener.getsockname())
                client.send(b"kept")
        assert dict(unix_sockets(inquiry, _MIB))[inode] - before == 5 * _MIB


def test_record_locks_are_counted_up_to_what_was_asked() -> None:
    with tree(f"{_PREPARED}kept = lock(300)\nhere()") as subject:
        assert record_locks(_goes_on(subject), 1000) == 0
        assert record_locks(_goes_on(subject), 1000) == 300
        assert 100 < record_locks(_pids(subject), 100) <= 300
        assert record_locks((subject.init_pid,), 1000) == 0


def test_locks_of_others_hide_none_of_a_tree_and_cost_it_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.record_locks, "_LIST_BYTES", 1)  # as if the machine had more than can be read
    with ExitStack() as stack:
        subjects = [stack.enter_context(_acted(f"kept = lock({count})\nhere()")) for count in (1000, 1000, 10)]
        assert [record_locks(_pids(subject), 2000) for subject in subjects] == [1000, 1000, 10]


def test_locks_of_all_processes_and_a_dead_first_thread_are_counted() -> None:
    act = """
kept = [lock(100), lock(200), select.epoll()]
for number in range(50):
    kept.append(os.eventfd(0))
    kept[2].register(kept[-1], select.EPOLLIN)
for start in range(0, 20, 2):  # behind them come the lines of the watches
    fcntl.fcntl(kept[2], fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, start, 1, 0))
if os.fork() == 0:
    kept.append(lock(300))
    here()
    os.read(begin[0], 1)
    os._exit(0)
import threading
threading.Thread(target=lambda: (here(), os.read(begin[0], 1))).start()
import platform
libc.syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # the exit of one thread
"""
    with _acted(act, voices=2) as subject:
        assert record_locks(_pids(subject), 10_000) == 610


def test_locks_that_a_dead_process_left_in_shared_descriptors_are_counted() -> None:
    # The machine's list leaves out the locks of a process that is gone.
    act = """
import platform
CLONE_FILES, SIGCHLD = 0x400, 17
child = libc.syscall({"x86_64": 56, "aarch64": 220}[platform.machine()], CLONE_FILES | SIGCHLD, 0, 0, 0, 0)
if child == 0:
    kept = lock(50)
    os._exit(0)
os.waitpid(child, 0)
here()
"""
    with _acted(act) as subject:
        assert record_locks(_pids(subject), 1000) == 50


def test_threads_that_end_at_each_look_hide_nothing() -> None:
    act = """
import _thread, platform
kept = [[lock(100), *os.pipe()] for _ in range(20)]
def link():
    _thread.start_new_thread(link, ())
link()
here()
libc.syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # the exit of one thread
"""
    with _acted(act) as subject, closing(UnmappedMemory()) as count:
        for _ in range(4):
            deadline = time.monotonic() + 60
            while not (pids := _pids(subject)):
                assert time.monotonic() < deadline
            assert record_locks(pids, 1500) > 1500
            assert count.held_by(pids, _MIB) > _MIB


def test_a_process_that_ends_as_a_whole_is_beyond_no_limit() -> None:
    act = """
import platform
kept = lock(300)
here()
libc.syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""
    with _acted(f"if os.fork() == 0:\n{indent(act.strip(), '    ')}") as subject:
        assert record_locks(_pids(subject), 1000) <= 300


def test_locks_that_cannot_be_counted_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with _acted("kept = lock(300)\nhere()") as subject:
        pids = _pids(subject)
        with monkeypatch.context() as more_open_than_is_looked_at:
            more_open_than_is_looked_at.setattr(limits.record_locks, "_MOST_DESCRIPTORS", 2)
            assert record_locks(pids, 1000) == 1001

        def refuse(path: str, most: int) -> int:
            raise PermissionError(errno.EACCES, path)

        # As of a program that may not be read: then the machine's list is the only one that has its locks.
        monkeypatch.setattr(limits.record_locks, "_locks_of", refuse)
        assert record_locks(pids, 1000) == 300
        monkeypatch.setattr(limits.record_locks, "_LIST_BYTES", 1)
        assert record_locks(pids, 1000) == 1001
