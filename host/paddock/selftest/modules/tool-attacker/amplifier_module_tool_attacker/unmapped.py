"""Attacks with memory that no process maps: it stays taken, and no process's size includes it.

Each takes so many mebibytes in several processes, none of which has many open files, and keeps them for `seconds`: a
count from outside needs a moment. The attacks count the memory they asked the kernel to keep, without the kernel's own
records.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path

from .child import end_all, started
from .raw_calls import NUMBERS, call, checked, declare, libc, shmat
from .way import RefusedActError, Way

_MEBIBYTE = 1 << 20
_IPC_PRIVATE, _IPC_RMID, _IPC_CREATE = 0, 0, 0o1600
_SET_PIPE_SIZE = 1031
_SET_LOCK, _SET_LOCK_OF_DESCRIPTION = 6, 37
_LOCK_BYTES, _WATCH_BYTES, _MAPPING_BYTES, _INODE_BYTES = 192, 200, 200, 1024
_LOCKS_OF_A_FILE = 500
_HUGE = 2 * _MEBIBYTE
_PAGES_OF_A_PIPE = 16
_BUFFERS = 4 * _MEBIBYTE
_ACCESS_LIST = "system.posix_acl_access"

_mmap = declare("mmap", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)

Taker = Callable[[], Generator[int]]
"""Takes memory without end and yields how many more bytes it has each time; it keeps them until it is closed."""


def hold_unmapped_memory(kind: str, mebibytes: int, processes: int, seconds: float) -> Iterator[Way]:
    """Take memory of one kind, and keep it for some time."""
    yield kind, lambda: _held(_KINDS[kind], mebibytes, processes, seconds)


def _held(taker: Taker, mebibytes: int, processes: int, seconds: float) -> str:
    reader, writer = os.pipe()
    share = mebibytes * _MEBIBYTE // processes
    children = [started(lambda: _hold(taker, share, writer)) for _ in range(processes)]
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            answers = [struct.unpack("=qi", answer) for _ in children if (answer := pipe.read(12))]
        taken = sum(held for held, _ in answers) // _MEBIBYTE
        if len(answers) < processes:
            raise RefusedActError("SIGKILL", f"ended {processes - len(answers)} of {processes} processes")
        if taken < mebibytes:
            number = next(number for held, number in answers if held < share)
            raise RefusedActError(errno.errorcode.get(number, "EAGAIN"), f"after {taken} of {mebibytes} MiB")
        time.sleep(seconds)
        if any(os.waitpid(child, os.WNOHANG)[0] for child in children):
            raise RefusedActError("SIGKILL", "ended what held it")
        return f"{taken} MiB in {processes} processes"
    finally:
        end_all(children, signal.SIGTERM)


def _hold(taker: Taker, wanted: int, writer: int) -> None:
    """Take, and keep it until the signal to end, with time to release what would outlive the process."""
    signal.signal(signal.SIGTERM, _stop)
    taking = taker()
    try:
        _take_and_report(taking, wanted, writer)
        while True:
            time.sleep(0.05)  # not for good: the signal may have come a moment ago
    finally:
        taking.close()


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _take_and_report(taking: Generator[int], wanted: int, writer: int) -> None:
    held = number = 0
    try:
        for more in taking:
            held += more
            if held >= wanted:
                break
    except OSError as error:
        number = error.errno or 0
    os.write(writer, struct.pack("=qi", held, number))
    os.close(writer)


def _dropped(flags: int, path: str | None = None) -> Generator[int]:
    descriptor = -1 if path is None else os.open(path, os.O_RDWR)
    kept = []
    chunk = 16 * _MEBIBYTE
    while True:
        area = mmap.mmap(descriptor, chunk, flags)
        for page in range(0, chunk, mmap.PAGESIZE):
            area[page] = 1
        area.madvise(mmap.MADV_DONTNEED)
        kept.append(area)
        yield chunk


def _segments() -> Generator[int]:
    size = 32 * _MEBIBYTE
    kept: list[int] = []
    try:
        while True:
            segment = checked(libc.shmget(_IPC_PRIVATE, ctypes.c_size_t(size), _IPC_CREATE))
            kept.append(segment)
            address = ctypes.c_void_p(shmat(segment, None, 0))
            ctypes.memset(address, 1, size)
            libc.shmdt(address)
            yield size
    finally:
        for segment in kept:
            libc.shmctl(segment, _IPC_RMID, None)


def _messages() -> Generator[int]:
    message = ctypes.create_string_buffer(struct.pack("=q", 1) + bytes(8000))
    kept: list[int] = []
    try:
        while True:
            kept.append(checked(libc.msgget(_IPC_PRIVATE, _IPC_CREATE)))
            while libc.msgsnd(kept[-1], message, ctypes.c_size_t(8000), 0o4000) == 0:
                yield 8000
    finally:
        for queue in kept:
            libc.msgctl(queue, _IPC_RMID, None)


def _semaphores() -> Generator[int]:
    kept: list[int] = []
    try:
        while True:
            kept.append(checked(libc.semget(_IPC_PRIVATE, 16000, _IPC_CREATE)))
            yield 64 * 16000
    finally:
        for one in kept:
            libc.semctl(one, 0, _IPC_RMID)


def _pair() -> tuple[socket.socket, socket.socket, int]:
    return _filled(*socket.socketpair())


def _filled(*ends: socket.socket) -> tuple[socket.socket, socket.socket, int]:
    held = 0
    for end in ends:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFERS)
        try:
            while True:
                held += end.send(bytes(1 << 16))
        except BlockingIOError:
            continue
    return ends[0], ends[1], held


def _connections() -> Generator[int]:
    kept = []
    with socket.socket() as listener:
        listener.listen()  # at an address of the kernel's choice, so that nobody has set the size of its buffers
        while True:
            near = socket.create_connection(listener.getsockname())
            first, second, held = _filled(near, listener.accept()[0])
            kept.append((first, second))
            yield held


def _socket_pairs() -> Generator[int]:
    kept = []
    while True:
        first, second, held = _pair()
        kept.append((first, second))
        yield held


def _descriptors_on_their_way() -> Generator[int]:
    near, far = socket.socketpair()
    kept = [near, far]
    near.setblocking(False)
    while True:
        first, second, held = _pair()
        socket.send_fds(near, [b"x"], [first.fileno(), second.fileno()])
        first.close()
        second.close()
        yield held
    del kept


def _pipes() -> Generator[int]:
    kept = []
    while True:
        ends = os.pipe2(os.O_NONBLOCK)
        kept.append(ends)
        try:
            fcntl.fcntl(ends[1], _SET_PIPE_SIZE, _MEBIBYTE)
        except OSError:
            pass
        try:
            while True:
                yield os.write(ends[1], bytes(1 << 16))
        except BlockingIOError:
            continue


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _pinned_pages() -> Generator[int]:
    """Pass a byte of each huge page to a pipe, and remove the page from the address space."""
    kept = []
    while True:
        ends = os.pipe()
        kept.append(ends)
        for _ in range(_PAGES_OF_A_PIPE):
            address = _area(2 * _HUGE)
            first = address + -address % _HUGE
            checked(libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(_HUGE), mmap.MADV_HUGEPAGE))
            ctypes.memset(first, 1, 1)
            there = ctypes.create_string_buffer(_HUGE // mmap.PAGESIZE)
            checked(libc.mincore(ctypes.c_void_p(first), ctypes.c_size_t(_HUGE), there))
            pinned = sum(there.raw) * mmap.PAGESIZE  # one small page, where no huge one was available
            call("vmsplice", ends[1], _Piece(first, 1), 1, 0)
            checked(libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(2 * _HUGE)))
            yield pinned


def _area(size: int) -> int:
    """Return the address of own memory that no object here keeps."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address: int = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    checked(-1 if address == ctypes.c_void_p(-1).value else 0)
    return address


def _record_locks(command: int) -> Generator[int]:
    kept = []
    # Not all in one file: with each, the kernel walks over all of them.
    while True:
        file = tempfile.TemporaryFile()
        kept.append(file)
        for start in range(0, 2 * _LOCKS_OF_A_FILE, 2):
            fcntl.fcntl(file, command, struct.pack("hhqqi", fcntl.F_WRLCK, 0, start, 1, 0))
        yield _LOCKS_OF_A_FILE * _LOCK_BYTES


def _watches() -> Generator[int]:
    """Make each descriptor's number stand for many files, one after the other, in many sets."""
    sets = [select.epoll() for _ in range(80)]
    files = [os.eventfd(0) for _ in range(80)]
    first = max(files) + 1
    for number in range(first, first + 70):
        for file in files:
            os.dup2(file, number)
            for one in sets:
                one.register(number, select.EPOLLIN)
            yield len(sets) * _WATCH_BYTES


def _mappings() -> Generator[int]:
    """Make every second page of a large area one that the kernel has to record separately."""
    pages = 64000
    address = _area(pages * mmap.PAGESIZE)
    for page in range(0, pages, 2):
        place = ctypes.c_void_p(address + page * mmap.PAGESIZE)
        checked(libc.mprotect(place, ctypes.c_size_t(mmap.PAGESIZE), 0))
        if page % 1000 == 0:
            yield 1000 * _MAPPING_BYTES


def _empty_files() -> Generator[int]:
    with contextlib.closing(_new_files()) as files:
        for _ in files:
            yield _INODE_BYTES


def _access_lists() -> Generator[int]:
    """Attach the longest possible list of readers to each of many files."""
    count = 8000
    entries = [(1, 7, -1), *[(2, 7, os.getuid())] * count, (4, 0, -1), (16, 7, -1), (32, 0, -1)]
    attribute = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    with contextlib.closing(_new_files()) as files:
        for path in files:
            os.setxattr(path, _ACCESS_LIST, attribute)
            yield len(attribute)


def _new_files() -> Generator[Path]:
    """Make a file after the other, and remove all of them in the end, for which no descriptor has to be free."""
    folder = Path(_folder())
    made = 0
    try:
        while True:
            path = folder / f"{made}"
            path.touch()
            made += 1
            yield path
    finally:
        for number in range(made):
            (folder / f"{number}").unlink(missing_ok=True)
        folder.rmdir()


def _events() -> Generator[int]:
    """Make the kernel keep, in many queues, events of files with long names, which are never read."""
    folder = _folder()
    names = [os.path.join(folder, letter * 250) for letter in "ab"]
    queues = [checked(libc.inotify_init1(0)) for _ in range(100)]
    for queue in queues:
        checked(libc.inotify_add_watch(queue, folder.encode(), 0xFFF))
    try:
        for _ in range(4000):
            for name in names:
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
                os.unlink(name)
            yield len(queues) * len(names) * 4 * 300
    finally:
        os.rmdir(folder)


def _rules() -> Generator[int]:
    """Write rules of a confinement that is never entered: for every port, and repeatedly."""
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("=QQQ", 0, 3, 0))
        ruleset = call("landlock_create_ruleset", attributes, 16, 0)
        # Millions of them: each argument is made once, and only the port changes.
        rule = ctypes.create_string_buffer(struct.pack("=QQ", 1, 0))
        words = (NUMBERS["landlock_add_rule"], ruleset, 2, ctypes.addressof(rule), 0)
        add = partial(libc.syscall, *map(ctypes.c_long, words))
        for number in range(65536):
            struct.pack_into("=Q", rule, 8, number)
            checked(add())
            if number % 1024 == 0:
                yield 1024 * 64


def _filters() -> Generator[int]:
    """Give each of many sockets the longest possible filter program."""
    program = ctypes.create_string_buffer(struct.pack("=HBBI", 0, 0, 0, 1) * 1000 + struct.pack("=HBBI", 6, 0, 0, 1))
    described = struct.pack("@HP", 1001, ctypes.addressof(program))
    kept = []
    while True:
        ends = socket.socketpair()
        kept.append(ends)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, 26, described)
            yield 8008


def _memory() -> Generator[int]:
    """Keep own memory, which is mapped: here it is only part of a sum."""
    chunk = _MEBIBYTE
    while True:
        ctypes.memset(_area(chunk), 1, chunk)
        yield chunk


def _full_files() -> Generator[int]:
    """Fill files in the folder that is in memory."""
    folder = Path(_folder())
    file = folder / "full"
    try:
        with file.open("wb", buffering=0) as opened:
            while True:
                yield opened.write(bytes(1 << 16))
    finally:
        file.unlink(missing_ok=True)
        folder.rmdir()


def _everything() -> Generator[int]:
    """Take some of every kind, always of the one with the least; a refused kind is left out from then on."""
    takings = {kind: taker() for kind, taker in _KINDS.items() if kind not in _APART}
    held = dict.fromkeys(takings, 0)
    number = errno.EAGAIN
    try:
        while held:
            kind = min(held, key=held.__getitem__)
            try:
                more = next(takings[kind])
            except StopIteration:
                del held[kind]
                continue
            except OSError as error:
                number = error.errno or number
                del held[kind]
                continue
            held[kind] += more
            yield more
        raise OSError(number, os.strerror(number))
    finally:
        for taking in takings.values():
            taking.close()


def _folder() -> str:
    """Return a new folder, in memory where the machine has such a place."""
    shared = "/dev/shm"  # noqa: S108 - it is in memory everywhere
    return tempfile.mkdtemp(prefix="attack-", dir=shared if os.access(shared, os.W_OK) else None)


_KINDS: dict[str, Taker] = {
    "shared memory that was dropped": partial(_dropped, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS),
    "shared zeros that were dropped": partial(_dropped, mmap.MAP_SHARED, "/dev/zero"),
    "segments": _segments,
    "messages": _messages,
    "semaphores": _semaphores,
    "unread bytes of socket pairs": _socket_pairs,
    "unread bytes of connections": _connections,
    "descriptors on their way": _descriptors_on_their_way,
    "unread bytes of pipes": _pipes,
    "pages lent to pipes": _pinned_pages,
    "record locks": partial(_record_locks, _SET_LOCK),
    "record locks of descriptions": partial(_record_locks, _SET_LOCK_OF_DESCRIPTION),
    "watches": _watches,
    "mappings": _mappings,
    "empty files": _empty_files,
    "access lists": _access_lists,
    "events that are not read": _events,
    "rules": _rules,
    "filters of sockets": _filters,
    "memory": _memory,
    "full files": _full_files,
}
_APART = frozenset(("rules", "record locks", "record locks of descriptions"))  # slow, or counted separately
_KINDS["everything"] = _everything
