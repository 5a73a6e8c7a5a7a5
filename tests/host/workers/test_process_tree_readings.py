"""What a process tree uses is read from outside as it is, however the tree hides it, and while it changes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from host.workers.trees import RunningTree, require_telling_who_borrows, tree
from paddock.workers.limits import process_tree
from paddock.workers.limits.process_tree import (
    ChildrenFromScan,
    ProcessTree,
    TreeReading,
    swapped_bytes,
)
from paddock.workers.process import ModuleProcess

_MIB = 1 << 20
_SEIZE = 0x4206
_PATIENCE = 60.0

_EATS = "eaten = bytearray(64 << 20); eaten[::4096] = bytes(len(eaten) >> 12)\nhere()"
_SPREADS = """
for depth in range(3):
    between = os.fork()
    if between == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        here()
        wait()
    os.waitpid(between, 0)
if os.fork() == 0:
    os.setpgid(0, 0)
    here()
    wait()
here()
"""


def read(running: RunningTree) -> TreeReading:
    reading = ProcessTree(running.init_pid).read()
    assert reading is not None
    return reading


@contextmanager
def ran(program: str) -> Iterator[tuple[RunningTree, ProcessTree]]:
    """Yield a tree once somebody in it has said that it is where the test wants it, and what was seen of it before."""
    with tree(program) as running:
        seen = ProcessTree(running.init_pid)
        running.begin()
        running.is_here()
        yield running, seen


def settles(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def test_every_descendant_is_found_however_it_left_its_parent() -> None:
    with tree(_SPREADS) as running:
        assert read(running).tasks == 1
        running.begin()
        for _ in range(5):
            running.is_here()
        assert settles(lambda: read(running).tasks == 5)
        reading = read(running)
        assert len(set(reading.pids)) == 5
        assert running.init_pid not in reading.pids
        assert reading.is_complete
        # And alike on a kernel that does not list them.
        scanned = ProcessTree(running.init_pid, ChildrenFromScan()).read()
        assert scanned is not None
        assert set(scanned.pids) == set(read(running).pids)
        assert scanned.tasks == 5


def test_threads_are_tasks_and_their_children_are_found() -> None:
    program = """
def wait_or_fork(number):
    if number == 1 and os.fork() == 0:
        here()
        wait()
    time.sleep(1000)
for number in range(3):
    threading.Thread(target=wait_or_fork, args=(number,), daemon=True).start()
"""
    with ran(program) as (running, _):
        assert settles(lambda: read(running).tasks == 5)
        assert len(read(running).pids) == 2


def test_a_programs_name_cannot_confuse_the_reading() -> None:
    with tree("open('/proc/self/comm', 'w').write(') Z 1 (')\nhere()") as running:
        before = read(running)
        running.begin()
        running.is_here()
        assert read(running).pids == before.pids
        assert read(running).tasks == 1


def test_what_processes_share_is_measured_once() -> None:
    program = _EATS.replace("here()", "if os.fork() == 0:\n    here()\n    wait()\nhere()")
    with ran(program) as (running, seen):
        running.is_here()
        reading = read(running)
        assert reading.resident_bytes > 126 * _MIB
        assert seen.estimate(reading.pids) > 126 * _MIB
        assert 60 * _MIB < seen.measure(reading.pids) < 80 * _MIB


def borrows_until_opened(fifo: Path) -> str:
    """Return a program that eats memory, then has a child that uses that until somebody opens the fifo to write."""
    os.mkfifo(fifo)
    return f"""
{_EATS}
open_first = (os.POSIX_SPAWN_OPEN, 0, {str(fifo)!r}, os.O_RDONLY, 0)
os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {{}}, file_actions=[open_first]), 0)
here()
"""


def test_a_child_that_borrows_its_parents_memory_has_none_of_its_own(tmp_path: Path) -> None:
    require_telling_who_borrows()
    with ran(borrows_until_opened(tmp_path / "fifo")) as (running, seen):
        assert settles(lambda: read(running).tasks == 2)
        pids = read(running).pids
        assert len(pids) == 2
        assert 60 * _MIB < seen.estimate(pids) < 80 * _MIB
        assert 60 * _MIB < seen.measure(pids) < 80 * _MIB


def test_where_the_kernel_compares_nothing_a_borrower_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "kcmp: Operation not permitted")

    monkeypatch.setattr(process_tree, "call", refuse)
    with ran(borrows_until_opened(tmp_path / "fifo")) as (running, seen):
        assert settles(lambda: read(running).tasks == 2)
        pids = read(running).pids
        assert seen.estimate(pids) > 126 * _MIB

        def meanwhile(seconds: float) -> None:
            assert 0 < seconds < 0.2
            (tmp_path / "fifo").write_bytes(b"")
            running.is_here()

        with monkeypatch.context() as patched:
            patched.setattr(process_tree.time, "sleep", meanwhile)
            assert 60 * _MIB < seen.measure(pids) < 80 * _MIB


def test_a_copy_that_its_parent_waits_for_is_no_borrower() -> None:
    program = f"""
import ctypes, signal, platform
{_EATS.replace("here()", "")}
number = {{"x86_64": 56, "aarch64": 220}}[platform.machine()]
flags = ctypes.c_ulong(0x4000 | signal.SIGCHLD)  # CLONE_VFORK, and not CLONE_VM
if ctypes.CDLL(None).syscall(ctypes.c_long(number), flags, None, None, None, None) == 0:
    eaten[::4096] = bytes(len(eaten) >> 12)
    here()
    wait()
"""
    with ran(program) as (running, seen):
        pids = read(running).pids
        assert len(pids) == 2
        assert seen.estimate(pids) > 126 * _MIB
        assert seen.measure(pids) > 126 * _MIB


def file_system_of(path: Path) -> str:
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return next((line.partition(" - ")[2].split()[0] for line in mounts if line.split()[2] == number), "")


_INHERITS = "inherited = bytearray(64 << 20); inherited[::4096] = bytes(len(inherited) >> 12)"
_MAPS_A_FILE = """
large = open({large!r}, "rb")
mapped = mmap.mmap(large.fileno(), 0, prot=mmap.PROT_READ)
sum(mapped[::4096])
here()
"""
_ENDS_ITS_FIRST_THREAD = """
def other():
    eaten = bytearray(64 << 20); eaten[::4096] = bytes(len(eaten) >> 12)
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
        time.sleep(0.01)
    here()
    time.sleep(1000)
threading.Thread(target=other).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


@pytest.mark.parametrize(
    ("program", "preparation", "is_its_own"),
    [
        (_EATS, "", True),
        (_ENDS_ITS_FIRST_THREAD, "", True),
        ("here()", _INHERITS, False),
        (_MAPS_A_FILE, "", False),
    ],
    ids=["eats", "first thread ended", "inherited", "file"],
)
def test_resident_memory_is_the_trees_own_unless_inherited_or_of_a_file(
    program: str, preparation: str, is_its_own: bool, tmp_path: Path
) -> None:
    if program == _MAPS_A_FILE and file_system_of(tmp_path) == "tmpfs":
        pytest.skip(f"{tmp_path}: the folder for temporary files is in memory itself, a tmpfs")
    (tmp_path / "large").write_bytes(bytes(64 * _MIB))
    with tree(program.replace("{large!r}", repr(str(tmp_path / "large"))), preparation) as running:
        seen = ProcessTree(running.init_pid)
        before = seen.read()
        assert before is not None
        assert seen.estimate(before.pids) < 2 * _MIB
        running.begin()
        running.is_here()
        reading = seen.read()
        assert reading is not None
        assert 63 * _MIB < reading.resident_bytes < 120 * _MIB
        assert (60 if is_its_own else 0) * _MIB <= seen.estimate(reading.pids) < (70 if is_its_own else 8) * _MIB
        if not preparation:  # which is measured with what it inherited
            assert (60 if is_its_own else 0) * _MIB <= seen.measure(reading.pids) < (75 if is_its_own else 16) * _MIB


def test_processor_time_counts_live_and_reaped_processes() -> None:
    program = """
child = os.fork()
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
here()
"""
    with tree(program) as running:
        before = read(running).cpu_seconds
        running.begin()
        running.is_here()
        used = read(running).cpu_seconds - before
        assert 0.35 < used < 1.0
        time.sleep(0.05)
        assert read(running).cpu_seconds - before - used <= 0.02


def test_a_tree_is_read_no_further_than_was_asked() -> None:
    with tree("for _ in range(20):\n    if os.fork() == 0:\n        here()\n        wait()") as running:
        running.begin()
        for _ in range(20):
            running.is_here()
        reading = ProcessTree(running.init_pid).read(most_tasks=8)
        assert reading is not None
        assert not reading.is_complete
        assert reading.tasks == 9


def test_processes_that_come_and_go_meanwhile_disturb_no_reading() -> None:
    program = """
here()
while True:
    child = os.fork()
    if child == 0:
        threading.Thread(target=int).start()
        os._exit(0)
    os.waitpid(child, 0)
"""
    with ran(program) as (_, seen):
        end = time.monotonic() + 0.5
        largest = 0
        while time.monotonic() < end or (largest < 2 and time.monotonic() < end + _PATIENCE):
            reading = seen.read()
            assert reading is not None
            assert reading.tasks >= 1
            largest = max(largest, reading.tasks)
            assert seen.estimate(reading.pids) < 32 * _MIB
            assert seen.measure(reading.pids) < 32 * _MIB
        assert largest > 1, "no child was ever seen"


def test_of_a_tree_that_is_gone_there_is_no_reading() -> None:
    with tree("here()") as running:
        seen = ProcessTree(running.init_pid)
        pids = read(running).pids
    assert seen.read() is None
    assert seen.estimate(pids) == 0
    assert seen.measure(pids) == 0
    with pytest.raises(ProcessLookupError, match=str(running.init_pid)):
        ProcessTree(running.init_pid)


def test_another_process_with_the_same_number_is_not_taken_for_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    plainly = process_tree.read_whole

    def born_later(path: str) -> bytes:
        if not path.endswith("/stat"):
            return plainly(path)
        name, _, rest = plainly(path).rpartition(b") ")
        fields = rest.split()
        fields[19] = b"%d" % (int(fields[19]) + 1)  # when it began
        return b"%s) %s\n" % (name, b" ".join(fields))

    with tree("here()") as running:
        seen = ProcessTree(running.init_pid)
        assert seen.read() is not None
        monkeypatch.setattr(process_tree, "read_whole", born_later)
        assert seen.read() is None


def test_memory_that_may_not_be_measured_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    plainly = process_tree.read_whole

    def refusing(path: str) -> bytes:
        if path.endswith("smaps_rollup"):
            raise PermissionError(13, "Permission denied", path)
        return plainly(path)

    monkeypatch.setattr(process_tree, "read_whole", refusing)
    with ran(_EATS) as (running, seen):
        pids = read(running).pids
        assert seen.measure(pids) == seen.estimate(pids) > 63 * _MIB


def test_a_want_of_descriptors_is_an_error_not_an_empty_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(path: str) -> bytes:
        raise OSError(24, "Too many open files", path)

    with tree("here()") as running:
        seen = ProcessTree(running.init_pid)
        monkeypatch.setattr(process_tree, "read_whole", exhausted)
        with pytest.raises(OSError, match="Too many open files"):
            seen.read()


def test_swap_is_summed_over_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = (
        b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        b"/dev/zram0                              partition\t8388604\t\t1024\t\t100\n"
        b"/swap\\040file                           file\t\t1048572\t\t2048\t\t-2\n"
    )
    monkeypatch.setattr(process_tree, "read_whole", lambda path: listing)
    assert swapped_bytes() == 3 * _MIB


def test_a_debugger_at_a_worker_is_seen() -> None:
    is_traced = ModuleProcess.is_traced.fget
    assert is_traced is not None
    with subprocess.Popen(["sleep", "60"]) as worker:
        of_worker: Any = SimpleNamespace(pid=worker.pid)
        assert not is_traced(of_worker)
        assert ctypes.CDLL(None).ptrace(_SEIZE, worker.pid, None, None) == 0
        assert is_traced(of_worker)
        worker.kill()
    assert not is_traced(of_worker)
