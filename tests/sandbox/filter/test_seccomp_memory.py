"""Where no control group counts memory, the filter refuses what could hold some that nobody sees."""

from __future__ import annotations

from sandbox.filter.test_seccomp_in_force import _LOCK
from sandbox.subject import run
from support.rows import each_row

_ACTS = """
import struct, threading
from paddock_sandbox.syscall_numbers import SYSCALL_NUMBERS
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
numbers = SYSCALL_NUMBERS[platform.machine()]

def make(name, *arguments):
    if libc.syscall(ctypes.c_long(numbers[name]), *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), "")

reading, writing = os.pipe()
one, other = socket.socketpair()
file = os.memfd_create("x")
os.truncate(file, 4096)

def enlarged():
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
    return [one.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)]

def locked(command):
    fcntl.fcntl(file, command, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0))

def shared():
    number = numbers["clone"]
    child = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, (0x400 | 17, 0, 0, 0, 0)))  # CLONE_FILES
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError(ctypes.get_errno(), "")
    os.waitpid(child, 0)

def piece():
    return ctypes.addressof((ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 1))

acts = {
    "shared memory": lambda: mmap.mmap(-1, 4096).close(),
    "private memory": lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close(),
    "shared file": lambda: mmap.mmap(file, 4096).close(),
    "segment": lambda: make("shmget", 0, 4096, 0o1600),
    "sendfile": lambda: os.sendfile(writing, file, 0, 1),
    "splice": lambda: make("splice", reading, 0, writing, 0, 0, 0),
    "tee": lambda: make("tee", reading, writing, 0, 0),
    "vmsplice": lambda: make("vmsplice", writing, piece(), 0, 0),
    "pipe": lambda: fcntl.fcntl(writing, 1031, 1 << 16),
    "record lock": lambda: locked(fcntl.F_SETLK),
    "lock of a description": lambda: locked(37),
    "another process's descriptors": shared,
    "descriptors of a thread's own": lambda: make("close_range", 250, 250, 2),
    "rules": lambda: make("landlock_create_ruleset", 0, 0, 1),
    "listener": lambda: make("seccomp", 1, 8, 0),
    "program at a socket": lambda: one.setsockopt(socket.SOL_SOCKET, 26, bytes(16)),
}

def outcome(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno].replace("EOPNOTSUPP", "ENOTSUP")
    return "ok"

if given["lock"]:
    lock(**given["lock"])
tell({"acts": {name: outcome(act) for name, act in acts.items()}, "buffers": enlarged()})
"""

_REFUSED = {
    "shared memory": "EPERM",
    "segment": "EPERM",
    "sendfile": "EINVAL",
    "splice": "EINVAL",
    "tee": "EINVAL",
    "vmsplice": "EINVAL",
    "pipe": "EPERM",
    "rules": "ENOTSUP",
}
_ALWAYS_REFUSED = {
    "lock of a description": "EINVAL",
    "another process's descriptors": "EPERM",
    "descriptors of a thread's own": "EINVAL",
    "listener": "EPERM",
    "program at a socket": "EPERM",
}
_LEFT_ALONE = ("private memory", "shared file", "record lock")


@each_row("shares_host", [False, True])
def test_memory_that_cannot_be_counted_is_refused_for_real(shares_host: bool) -> None:
    inside = run(_LOCK + _ACTS, {"lock": {"shares_host": shares_host, "counts_memory": False}})
    outside = run(_LOCK + _ACTS, {"lock": {}})
    assert inside["acts"] == {**_REFUSED, **_ALWAYS_REFUSED, **dict.fromkeys(_LEFT_ALONE, "ok")}
    same = {name for name, answer in inside["acts"].items() if outside["acts"][name] == answer}
    # The kernel itself finds nothing to lend, or an address that is none.
    assert same <= {*_LEFT_ALONE, "splice", "tee"}
    assert outside["buffers"] == [200_000, 200_000]
    assert 200_000 not in inside["buffers"]


def test_what_a_control_group_counts_is_left_alone() -> None:
    inside = run(_LOCK + _ACTS, {"lock": {"counts_memory": True}})
    outside = run(_LOCK + _ACTS, {"lock": {}})
    assert inside == {**outside, "acts": {**outside["acts"], **_ALWAYS_REFUSED}}
