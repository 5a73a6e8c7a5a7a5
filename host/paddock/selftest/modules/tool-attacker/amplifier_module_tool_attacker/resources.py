"""Attacks on shared resources: memory, processors, processes, files, disk, output.

Each stops by itself once it has taken far more than its limit, for then it has succeeded. It then keeps its resources
for `seconds`: an observer outside needs a moment to notice.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .child import end_all, started
from .way import RefusedActError, Way, in_one_way

_MEBIBYTE = 1 << 20
_CHUNK = 8  # mebibytes


@in_one_way("in one process")
def eat_memory(mebibytes: int) -> str:
    # Written to, so that it really exists.
    taken = [bytes([number % 255 + 1]) * (_CHUNK * _MEBIBYTE) for number in range(0, mebibytes, _CHUNK)]
    return f"{len(taken) * _CHUNK} MiB"


@in_one_way("in several processes")
def eat_memory_in_several_processes(mebibytes: int, processes: int, seconds: float) -> str:
    """Take more than permitted, no process more than its share of it, and keep it for some time."""
    reader, writer = os.pipe()
    children = [started(lambda: _eat_and_wait(writer, mebibytes // processes)) for _ in range(processes)]
    os.close(writer)
    try:
        with os.fdopen(reader, "rb", buffering=0) as ready:
            done = sum(ready.read(1) == b"." for _ in children)
        if done < processes:
            raise RefusedActError("SIGKILL", f"ended {processes - done} of {processes} processes")
        time.sleep(seconds)
        return f"{mebibytes} MiB in {processes} processes"
    finally:
        end_all(children)


def _eat_and_wait(writer: int, mebibytes: int) -> None:
    kept = b"x" * (mebibytes * _MEBIBYTE)
    os.write(writer, b".")
    # So that the reader does not wait for processes that were ended before they could write.
    os.close(writer)
    signal.pause()
    del kept


def fill_the_scratch_folder(mebibytes: int) -> Iterator[Way]:
    yield "write", lambda: _filled(tempfile.mkdtemp(prefix="attack-"), mebibytes)


def write_a_huge_file(folder: str, mebibytes: int) -> Iterator[Way]:
    yield "write", lambda: _filled(folder, mebibytes)
    yield "extend", lambda: _filled(folder, mebibytes, by_extending=True)


def _filled(folder: str, mebibytes: int, *, by_extending: bool = False) -> str:
    path = Path(folder, "huge")
    try:
        with path.open("wb", buffering=0) as file:
            if by_extending:
                file.truncate(mebibytes * _MEBIBYTE)
            for _ in range(0 if by_extending else mebibytes):
                if file.write(bytes(_MEBIBYTE)) != _MEBIBYTE:
                    raise RefusedActError("ENOSPC", "not all was written")
        return f"{mebibytes} MiB in one file"
    finally:
        path.unlink(missing_ok=True)


@in_one_way("fork")
def start_a_fork_bomb(processes: int, seconds: float) -> str:
    """Start processes until no more can be started, and keep them for some time."""
    children: list[int] = []
    try:
        while len(children) < processes:
            children.append(started(signal.pause))
        time.sleep(seconds)
        return f"{processes} processes"
    finally:
        end_all(children)


@in_one_way("start")
def start_many_threads(threads: int, seconds: float) -> str:
    done = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(threads):
            thread = threading.Thread(target=done.wait, daemon=True)
            thread.start()
            started.append(thread)
        time.sleep(seconds)
        return f"{threads} threads"
    except RuntimeError as error:
        raise RefusedActError("EAGAIN", f"after {len(started)} threads: {error}") from None
    finally:
        done.set()


@in_one_way("open")
def open_many_files(files: int) -> str:
    descriptors: list[int] = []
    try:
        while len(descriptors) < files:
            descriptors.append(os.open("/dev/null", os.O_RDONLY))
        return f"{files} open files"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@in_one_way("loop")
def spin() -> None:
    while True:
        pass


@in_one_way("match")
def hold_the_interpreter_lock() -> None:
    """Run for good inside one instruction, where no Python code, not even of another thread, can run."""
    re.match("(a+)+$", "a" * 64 + "b")


@in_one_way("sleep")
def never_answer() -> None:
    time.sleep(3600)


@in_one_way("burn")
def burn_processor_time(seconds: float, share: float, processes: int, tries: int = 1) -> str:
    """Succeed if all processes together get more than `share` of a processor over some time.

    Each further try has twice as many of them: a busy machine gives more to more processes, and a quota does not.
    """
    had = 0.0
    for number in range(tries):
        had = max(had, _share_had(processes << number, seconds))
        if had > share:
            return f"{had:.0%} of a processor"
    raise RefusedActError("EAGAIN", f"{had:.0%} of a processor")


def _share_had(processes: int, seconds: float) -> float:
    """Return the share of a processor that so many processes get together; they begin once all are there."""
    began, used = time.monotonic(), _processor_time()
    parent = os.getpid()
    gate, opener = os.pipe()
    children: list[int] = []
    try:
        try:
            while len(children) < processes:
                children.append(started(lambda: _wait_and_spin(parent, gate, opener)))
            os.write(opener, bytes(processes))
        finally:
            os.close(gate)
            os.close(opener)
        time.sleep(seconds)
    finally:
        end_all(children)
    return (_processor_time() - used) / (time.monotonic() - began)


def _wait_and_spin(parent: int, gate: int, opener: int) -> None:
    """Spin once the parent says so, and no longer than it lives: it may be killed at any time."""
    os.close(opener)
    try:
        os.setsid()  # a kernel may divide its processors among sessions, and only then among their processes
    except OSError:
        pass  # refused here: it spins in the session it has
    if os.read(gate, 1):
        while os.getppid() == parent:
            pass


def _processor_time() -> float:
    """Return what this process has used, and its children that have ended."""
    usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def flood_the_output(mebibytes: int) -> Iterator[Way]:
    yield "stdout, in one line", lambda: _printed(1, b"x" * _MEBIBYTE, mebibytes)
    yield "stderr, in short lines", lambda: _printed(2, b"flood\n" * (_MEBIBYTE // 6), mebibytes)


def _printed(descriptor: int, data: bytes, mebibytes: int) -> str:
    for _ in range(mebibytes):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    return f"{mebibytes} MiB"
