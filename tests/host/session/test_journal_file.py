"""The file of a journal: what it takes to read it back, and that no damage is passed over."""

from __future__ import annotations

import asyncio
import os
import resource
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.session.journals.journal_file import (
    FILE_MAX,
    MAGIC,
    RECORD_MAX,
    JournalError,
    JournalFile,
    JournalInUseError,
    Kind,
    Record,
    read_journal,
)
from support.examples import examples, repeating

_BODIES = (b"", b"one", b"a longer body with \x00 in it", b"x" * 300)


def _journal(folder: Path) -> Path:
    path = folder / "s.journal"
    file = JournalFile.create(path)
    for body in _BODIES:
        file.append(Kind.ADD, body)
    file.close()
    return path


def _bodies(path: Path) -> list[bytes]:
    return [record.body for record in read_journal(path)[0]]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    path = _journal(tmp_path)
    records, is_cut, in_use = read_journal(path)
    assert [(record.kind, record.body) for record in records] == [(Kind.ADD, body) for body in _BODIES]
    assert (is_cut, in_use) == (False, False)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_cut_anywhere_keeps_what_is_before_the_cut(tmp_path: Path) -> None:
    whole = _journal(tmp_path).read_bytes()
    for end in range(len(MAGIC) + 1, len(whole)):
        path = tmp_path / f"{end}.journal"
        path.write_bytes(whole[:end])
        file, records, torn = JournalFile.open(path)
        file.close()
        assert [record.body for record in records] == list(_BODIES[: len(records)])
        kept = path.read_bytes()
        assert kept + (torn.read_bytes() if torn is not None else b"") == whole[:end]
        assert torn is None or torn.stat().st_mode & 0o777 == 0o600


def test_nothing_behind_a_flipped_bit_is_read(tmp_path: Path) -> None:
    whole = _journal(tmp_path).read_bytes()
    path = tmp_path / "flipped.journal"
    for place in range(len(MAGIC) + 1, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        bodies = _bodies(path)
        assert bodies == list(_BODIES[: len(bodies)])
        assert len(bodies) < len(_BODIES)


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_behind_the_head_are_read_within_bounds(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "s.journal"
    path.write_bytes(MAGIC + b"\x02" + tail)
    records, is_cut, _ = read_journal(path)
    assert sum(len(record.body) for record in records) <= len(tail)
    assert is_cut == bool(tail) or records


_WRITER = """
import os, random, sys
from pathlib import Path
from paddock.session.journals.journal_file import JournalFile, Kind, read_journal
path, choice = Path(sys.argv[1]), random.Random(7)
JournalFile.create(path).close()
for _ in range(int(sys.argv[2])):
    told, tells = os.pipe()
    writer = os.fork()
    if not writer:
        os.close(told)
        file, records, _ = JournalFile.open(path)
        number = len(records)
        while True:
            file.append(Kind.ADD, b"%d " % number + bytes(choice.choice((10, 1000, 30_000))))
            number += 1
            os.write(tells, number.to_bytes(4, "little"))
    os.close(tells)
    for _ in range(choice.randrange(1, 20)):
        os.read(told, 4)
    os.kill(writer, 9)
    os.waitpid(writer, 0)
    said = b"".join(iter(lambda: os.read(told, 4000), b""))
    os.close(told)
    numbers = [int(record.body.split()[0]) for record in read_journal(path)[0]]
    assert numbers == list(range(len(numbers)))
    if said:
        acknowledged = int.from_bytes(said[-4:], "little")
        assert acknowledged <= len(numbers) <= acknowledged + 1
    if path.stat().st_size > 1 << 20:
        path.unlink()
        JournalFile.create(path).close()
"""


@pytest.mark.parametrize("kills", [5, *repeating((500,))])
def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged(tmp_path: Path, kills: int) -> None:
    command = [sys.executable, "-c", _WRITER, tmp_path / "s.journal", str(kills)]
    done = subprocess.run(command, timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_second_host_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.journal"
    file = JournalFile.create(path)
    program = (
        "import sys; from pathlib import Path; from paddock.session.journals.journal_file import *\n"
        "try: JournalFile.open(Path(sys.argv[1]))\n"
        "except JournalInUseError: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", program, path], timeout=60).returncode == 7
    assert read_journal(path)[2]
    file.close()
    assert subprocess.run([sys.executable, "-c", program, path], timeout=60).returncode == 0


async def test_a_file_of_version_1_is_gone_on_with_in_its_form(tmp_path: Path) -> None:
    path = tmp_path / "s.journal"
    frames = []
    for body in _BODIES:
        checked = struct.pack("<Bd", Kind.ADD, 1.0) + body
        frames.append(struct.pack("<II", len(body), zlib.crc32(checked)) + checked)
    path.write_bytes(MAGIC + b"\x01" + b"".join(frames))
    file, records, torn = JournalFile.open(path)
    assert ([record.body for record in records], torn) == ([*_BODIES], None)
    file.append(Kind.ADD, b"more")
    await file.rewrite(lambda records: records[1:])
    file.append(Kind.ADD, b"again")
    file.close()
    assert (_bodies(path), read_journal(path)[1]) == ([*_BODIES[1:], b"more", b"again"], False)


async def test_a_rewritten_journal_is_still_held(tmp_path: Path) -> None:
    path = _journal(tmp_path)
    file, *_ = JournalFile.open(path)
    await file.rewrite(lambda records: records[1:3])
    assert _bodies(path) == list(_BODIES[1:3])
    with pytest.raises(JournalInUseError):
        JournalFile.open(path)
    file.append(Kind.END, b"end")
    file.close()
    assert _bodies(path) == [*_BODIES[1:3], b"end"]
    assert os.listdir(tmp_path) == [path.name]


async def test_what_is_written_during_a_rewriting_follows_in_its_order(tmp_path: Path) -> None:
    path = _journal(tmp_path)
    file, *_ = JournalFile.open(path)
    loop, is_read, may_go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def still_counting(records: list[Record]) -> list[Record]:
        loop.call_soon_threadsafe(is_read.set)
        assert may_go_on.wait(60)
        return records[:1]

    rewriting = asyncio.create_task(file.rewrite(still_counting))
    await is_read.wait()  # so the loop goes on meanwhile
    for number in range(3):
        file.append(Kind.ADD, b"meanwhile %d" % number)
    may_go_on.set()
    await rewriting
    file.append(Kind.ADD, b"later")
    file.close()
    assert _bodies(path) == [_BODIES[0], b"meanwhile 0", b"meanwhile 1", b"meanwhile 2", b"later"]


async def test_a_rewriting_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _journal(tmp_path)
    file, *_ = JournalFile.open(path)

    def fsync(descriptor: int) -> None:
        raise OSError("no room")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="no room"):
            await file.rewrite(lambda records: records[:1])
    file.append(Kind.END, b"end")
    file.close()
    with pytest.raises(OSError):  # where the session is over
        await file.rewrite(lambda records: records[:1])
    assert _bodies(path) == [*_BODIES, b"end"]
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "does not begin as one"),
        (b"something else entirely", "does not begin as one"),
        (MAGIC + b"\x09", "version 9"),
    ],
    ids=["empty", "foreign", "newer"],
)
def test_what_is_no_journal_is_refused_with_its_path(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "s.journal"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=problem) as caught:
        JournalFile.open(path)
    assert str(path) in str(caught.value)
    assert caught.value.hints
    assert path.read_bytes() == content


def test_a_record_or_a_file_over_its_bound_is_not_read(tmp_path: Path) -> None:
    path = _journal(tmp_path)
    before = path.stat().st_size
    file, *_ = JournalFile.open(path)
    with pytest.raises(OSError, match="over the 64 MiB"):
        file.append(Kind.ADD, b"x" * (RECORD_MAX + 1))
    file.append(Kind.ADD, b"x" * RECORD_MAX)
    file.close()
    assert len(read_journal(path)[0][-1].body) == RECORD_MAX
    with path.open("r+b") as written:  # as if it had one byte more, and all that follows
        written.seek(before)
        written.write(struct.pack("<I", RECORD_MAX + 1))
        written.truncate(before + RECORD_MAX + 100)
    records, is_cut, _ = read_journal(path)
    assert (len(records), is_cut) == (len(_BODIES), True)
    os.truncate(path, FILE_MAX + 1)
    for read in (JournalFile.open, read_journal):
        with pytest.raises(JournalError, match="more than 256 MiB"):
            read(path)


@pytest.mark.parametrize("count", [10_000, *repeating((1_000_000,))])
def test_any_number_of_records_is_read(tmp_path: Path, count: int) -> None:
    path = _journal(tmp_path)
    content = path.read_bytes()
    one = content[len(MAGIC) + 1 :]
    path.write_bytes(content[: len(MAGIC) + 1] + one * (count // len(_BODIES)))
    records, is_cut, _ = read_journal(path)
    assert (len(records), is_cut) == (count, False)


def test_a_journal_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _journal(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    for read in (JournalFile.open, read_journal):
        with pytest.raises(JournalError, match=f"it belongs to uid {path.stat().st_uid}"):
            read(path)


def test_a_clock_that_jumps_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.journal"
    file, day = JournalFile.create(path), 86_400.0
    for at in (10 * day, 9 * day, 12 * day):
        monkeypatch.setattr(time, "time", lambda at=at: at)
        file.append(Kind.TURN, str(at).encode())
    file.close()
    assert [record.at for record in read_journal(path)[0]] == [10 * day, 9 * day, 12 * day]


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_what_is_no_ordinary_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.journal"
    match kind:
        case "folder":
            path.mkdir()
        case "link":
            other = _journal(tmp_path).rename(tmp_path / "other")
            path.symlink_to(other)
        case "fifo":
            os.mkfifo(path)
    for read in (JournalFile.open, read_journal):
        with pytest.raises(JournalError):
            read(path)


def test_a_journal_that_others_may_read_is_made_private(tmp_path: Path) -> None:
    path = _journal(tmp_path)
    path.chmod(0o644)
    read_journal(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_disk_without_room_leaves_no_journal_without_a_head(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from paddock.session.journals.journal_file import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "try: JournalFile.create(Path(sys.argv[1]))\n"
        "except OSError: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path / "s.journal"], timeout=60).returncode == 7
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_leaves_no_half_record(tmp_path: Path) -> None:
    path = tmp_path / "s.journal"
    program = (
        "import resource, signal, sys; from pathlib import Path; from paddock.session.journals.journal_file import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "file = JournalFile.create(Path(sys.argv[1])); file.append(Kind.ADD, b'first')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: file.append(Kind.ADD, b'x' * 1000)\n"
        "except OSError: print(file.size); file.mark_missing()"
    )
    done = subprocess.run([sys.executable, "-c", program, path], timeout=60, capture_output=True)
    assert path.read_bytes()[int(done.stdout) :] == bytes(17)
    assert (_bodies(path), read_journal(path)[1]) == ([b"first"], True)


def test_what_is_missing_at_the_end_is_found_by_the_next_host(tmp_path: Path) -> None:
    file = JournalFile.create(tmp_path / "s.journal")
    file.append(Kind.ADD, b"first")
    assert not read_journal(file.path)[1]
    file.mark_missing()
    assert read_journal(file.path)[1:] == (True, True)  # told as well while a host has it
    file.close()
    file, records, torn = JournalFile.open(tmp_path / "s.journal")
    file.close()
    assert [record.body for record in records] == [b"first"] and torn is not None
    assert JournalFile.open(tmp_path / "s.journal")[2] is None


def test_an_end_is_marked_also_where_a_file_may_not_grow(tmp_path: Path) -> None:
    file = JournalFile.create(tmp_path / "s.journal")
    for body in (b"first", b"second"):
        file.append(Kind.ADD, body)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.size, limits[1]))
    try:
        with pytest.raises(OSError, match="large"):
            file.append(Kind.ADD, b"third")
        file.mark_missing()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file.close()
    file, records, torn = JournalFile.open(tmp_path / "s.journal")
    file.close()
    assert [record.body for record in records] == [b"first"] and torn is not None
