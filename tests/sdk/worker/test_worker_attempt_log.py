"""The log of attempts that a worker shares with its host: what is read of it when the worker is gone."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import struct
import traceback

import pytest

from paddock_sdk.worker.attempts import attempt_log
from paddock_sdk.worker.attempts.attempt_log import MAX_TEXT_BYTES, SIZE, AttemptLog, read
from support.rows import each_row


@pytest.fixture
def memory() -> memoryview:
    return memoryview(bytearray(SIZE))


@pytest.fixture
def log(memory: memoryview) -> AttemptLog:
    return AttemptLog(memory)


def test_what_was_noted_is_read_in_order_each_once(log: AttemptLog, memory: memoryview) -> None:
    for kind, text in (("read", "/b"), ("run", "git"), ("read", "/b"), ("write", "/ä")):
        log.note(kind, text)  # type: ignore[arg-type]
    assert read(bytes(memory)) == [("read", "/b"), ("run", "git"), ("write", "/ä")]


def test_the_latest_are_kept(log: AttemptLog, memory: memoryview) -> None:
    for number in range(10_000):
        log.note("read", f"/{number}")
    kept = read(bytes(memory))
    assert kept == [("read", f"/{number}") for number in range(10_000 - len(kept), 10_000)]
    assert 100 < len(kept) < 1000
    assert [text for _, _, text in log.after(log.last - 2)] == ["/9998", "/9999"]


def test_what_a_forked_process_noted_outlasts_what_its_parent_does(memory: memoryview) -> None:
    parent, child = AttemptLog(memory), AttemptLog(memory)
    child.go_on_as_fork()
    child.note("read", "/of the child")
    for number in range(1000):
        parent.note("read", f"/{number}")
    parent.mark_passed_on(parent.last)
    assert read(bytes(memory)) == [("read", "/of the child")]
    for number in range(10_000):
        child.note("read", f"/{number}")
    assert parent.after(parent.last - 2) == [(999, "read", "/998"), (1000, "read", "/999")]
    assert len(read(bytes(memory))) > 50


def test_what_was_passed_on_or_taken_back_is_not_read(log: AttemptLog, memory: memoryview) -> None:
    for name in "abc":
        log.note("read", f"/{name}")
    log.mark_passed_on(1)
    log.erase(3)
    log.erase(300)
    assert read(bytes(memory)) == [("read", "/b")]


def test_a_text_that_is_too_long_is_left_out_and_no_longer_than_that(log: AttemptLog, memory: memoryview) -> None:
    longest = "/" + "x" * (MAX_TEXT_BYTES - 1)
    log.note("read", longest + "x")
    log.note("read", longest)
    assert read(bytes(memory)) == [("read", longest)]


def test_a_socket_is_left_out_where_it_is_known_where_it_leads(log: AttemptLog, memory: memoryview) -> None:
    log.note("net", "")
    assert read(bytes(memory)) == [("net", "")]
    log.note("net", "host:1")
    assert read(bytes(memory)) == [("net", "host:1")]


@each_row("size", [0, 1, SIZE - 1, SIZE + 1])
def test_memory_of_another_size_is_empty(size: int) -> None:
    assert read(b"\1" * size) == []


def _slot(number: int, kind: int, length: int, text: bytes) -> bytes:
    return struct.pack("<QBH", number, kind, length) + text


@pytest.mark.parametrize(
    "slot",
    [
        _slot(0, 0, 2, b"/x"),  # being written
        _slot(2, 0, 2, b"/x"),  # another slot's
        _slot(1, len(attempt_log.KINDS), 2, b"/x"),
        _slot(1, 255, 2, b"/x"),
        _slot(1, 0, MAX_TEXT_BYTES + 1, b"/x"),
        _slot(1, 0, 0xFFFF, b"/x"),
        _slot(1, 0, 2, b"\xff\xff"),
        _slot(1, 0, 3, b"/\x1b["),
        _slot(1, 0, 5, b"/x\xe2\x80\xae"),  # a character that turns the direction of text
        _slot(1, 0, 2, b"/\n"),
    ],
)
def test_a_slot_that_is_none_is_left_out(slot: bytes, memory: memoryview) -> None:
    place = struct.calcsize("<Q") + struct.calcsize("<QBH") + MAX_TEXT_BYTES
    memory[place : place + len(slot)] = slot
    assert read(bytes(memory)) == []


def test_no_bytes_make_reading_fail() -> None:
    rng = random.Random(7)
    full = AttemptLog(memory := memoryview(bytearray(SIZE)))
    for number in range(300):
        full.note("read", f"/{number}")
    for _ in range(20):
        data = bytearray(memory)
        for _ in range(2000):
            data[rng.randrange(SIZE)] = rng.randrange(256)
        for kind, text in [*read(bytes(data)), *read(rng.randbytes(SIZE))]:
            assert kind in attempt_log.KINDS and text.isprintable() and len(text) <= MAX_TEXT_BYTES


def _sealed() -> int:
    memory = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, SIZE)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return memory


@each_row("end", [lambda: os._exit(0), lambda: os.kill(os.getpid(), signal.SIGKILL)])
def test_what_a_process_noted_outlasts_it(end: object) -> None:
    memory = _sealed()
    child = os.fork()
    if child == 0:
        attempt_log.share(os.dup(memory))
        attempt_log.shared().note("read", "/private")
        end()  # type: ignore[operator]
    os.waitpid(child, 0)
    assert read(os.pread(memory, SIZE, 0)) == [("read", "/private")]
    os.close(memory)


def test_sharing_leaves_no_descriptor_open() -> None:
    memory = _sealed()
    child = os.fork()  # a process shares its log for good
    if child == 0:
        try:
            before = len(os.listdir("/proc/self/fd"))
            attempt_log.share(memory)
            assert len(os.listdir("/proc/self/fd")) == before - 1
            with pytest.raises(OSError):
                attempt_log.share(memory)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(memory)
