"""Name sockets for a confined process, from a root that holds its private folder and nothing else.

A program names a socket by a path, and a filter of system calls cannot see which. So the filter stops each `connect`,
`bind` and `listen`. The broker, a process beside the confined one, makes the call in its place: on the program's own
socket, with the name as it read it once. The kernel follows that name among the files that the broker sees. No check is
made whose outcome could change before the call, and no stopped call goes on.

The broker keeps the one capability that it takes to reach the program's sockets, which also keeps it out of the
program's own reach.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from paddock_sandbox import capabilities, mounts, prctl
from paddock_sandbox.descriptors import close_all_but
from paddock_sandbox.step_error import StepError
from paddock_sandbox.syscall_numbers import numbers_here
from paddock_sandbox.syscalls import call

CALLS: Final = ("connect", "bind", "listen")
"""The system calls that the broker makes."""

# From <linux/seccomp.h>, <linux/sched.h> and <linux/pidfd.h>.
_RECEIVE: Final = 0xC050_2100
_REPLY: Final = 0xC018_2101
_IS_VALID: Final = 0x4008_2102
# The id, the thread, flags, the call, the architecture, its place, its arguments: of numbers the kernel takes the lower
# half, which comes first on the machines that there are filters for.
_NOTICE: Final = struct.Struct("<QIIiIQi4xQi4x24x")
_ANSWER: Final = struct.Struct("=QqiI")  # id, result, error, flags
_STATUS: Final = struct.Struct("=i")
_VECTOR: Final = struct.Struct("=QQ")
_PIDFD_THREAD: Final = os.O_EXCL

_LONGEST_NAME: Final = 128  # bytes of a struct sockaddr_storage
_BUFFER_BYTES: Final = 106_496  # the kernel doubles it; of a socket whose buffers would grow to ten MiB by themselves
_libc: Final = ctypes.CDLL(None, use_errno=True)  # unlike `call`, it lets other threads run meanwhile
_ACTS: Final = {numbers_here()[name]: getattr(_libc, name) for name in CALLS}


def start(folders: Sequence[str]) -> socket.socket:
    """Start a broker that sees these folders; return the line over which it takes the listener of a filter.

    The caller has one thread, and the capabilities over its mount namespace. The broker is an orphan from the start.

    Raises:
        StepError: it cannot be confined.
    """
    line, its_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its_line:
        parent = os.fork()
        if parent == 0:
            if os.fork() == 0:
                _run(its_line, folders)
            os._exit(0)
        os.waitpid(parent, 0)
    (number,) = _STATUS.unpack(line.recv(_STATUS.size) or _STATUS.pack(errno.ECHILD))
    if number:
        line.close()
        raise StepError("socket broker", number, os.strerror(number))
    return line


def _run(line: socket.socket, folders: Sequence[str]) -> NoReturn:
    """Be the broker: get confined, say so, and serve until no process is left that could ask."""
    try:
        os.setsid()  # a signal to the module's group is none to us
        proc = os.open("/proc", os.O_RDONLY) if os.path.exists("/proc/self") else -1
        close_all_but(0, 1, 2, line.fileno(), *((proc,) if proc >= 0 else ()))
        mounts.enter_only(folders)
        os.umask(0o077)
        capabilities.drop_all(but=capabilities.SYS_PTRACE)
        prctl.give_up_new_privileges()
        line.send(_STATUS.pack(0))
        _, (listener,), _, _ = socket.recv_fds(line, 1, 1)
        line.close()
        _serve(listener, proc)
    except OSError as error:
        line.send(_STATUS.pack(error.errno or errno.EIO))
    finally:
        os._exit(0)


def _serve(listener: int, proc: int) -> None:
    stopped = select.poll()
    stopped.register(listener, select.POLLIN)
    while stopped.poll()[0][1] & select.POLLIN:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
        except FileNotFoundError:
            continue  # the caller was killed meanwhile
        # A thread for each: a call may wait for as long as the program's own socket would.
        thread = threading.Thread(target=_answer, args=(listener, notice, proc), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            _reply(listener, notice, errno.EAGAIN)


def _answer(listener: int, notice: bytearray, proc: int) -> None:
    outcome = errno.EACCES
    try:
        _make(listener, notice, proc)
        outcome = 0
    except OSError as error:
        outcome = error.errno or outcome
    finally:
        _reply(listener, notice, outcome)


def _reply(listener: int, notice: bytearray, outcome: int) -> None:
    with suppress(OSError):  # the caller was killed meanwhile
        fcntl.ioctl(listener, _REPLY, _ANSWER.pack(_NOTICE.unpack(notice)[0], 0, -outcome, 0))


def _make(listener: int, notice: bytearray, proc: int) -> None:
    """Make the call of a notice on the caller's own socket.

    Raises:
        OSError: the kernel refused it, or the caller's socket or name cannot be had.
    """
    identity, caller, _, number, _, _, descriptor, where, length = _NOTICE.unpack(notice)
    act = _ACTS[number]
    name = None if act is _libc.listen else _read(caller, where, length)
    with _socket_of(caller, descriptor, proc) as own:
        # Both were the caller's, and not those of another process that has its number by now.
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", identity))
        if own.family == socket.AF_INET and own.type == socket.SOCK_STREAM:
            for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                own.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER_BYTES)
        if name is None:
            failed = act(own.fileno(), ctypes.c_int(where))
        elif own.family == socket.AF_UNIX and name[2:3] not in (b"", b"\0", b"/"):
            raise _error(errno.ENOENT)  # relative to a folder that is not seen here
        else:
            failed = act(own.fileno(), name, len(name))
        if failed:
            raise _error(ctypes.get_errno())


def _read(caller: int, place: int, length: int) -> bytes:
    """Return a name as it is now in the caller's memory."""
    if not 0 < length <= _LONGEST_NAME:
        raise _error(errno.EINVAL)
    copied = ctypes.create_string_buffer(length)
    ours, theirs = (
        ctypes.create_string_buffer(_VECTOR.pack(start, length), _VECTOR.size)
        for start in (ctypes.addressof(copied), place)
    )
    if call("process_vm_readv", caller, ours, 1, theirs, 1, 0) != length:
        raise _error(errno.EFAULT)
    return copied.raw


def _socket_of(caller: int, number: int, proc: int) -> socket.socket:
    """Return a socket of our own for a descriptor of the caller's, which is a thread."""
    try:
        process = call("pidfd_open", caller, _PIDFD_THREAD)
    except OSError:  # a kernel before Linux 6.9 knows processes alone
        process = call("pidfd_open", _process_of(caller, proc) if proc >= 0 else caller, 0)
    try:
        descriptor = call("pidfd_getfd", process, number, 0)
    finally:
        os.close(process)
    try:
        return socket.socket(fileno=descriptor)
    except OSError:  # it is no socket
        os.close(descriptor)
        raise


def _process_of(thread: int, proc: int) -> int:
    with open(os.open(f"{thread}/status", os.O_RDONLY, dir_fd=proc), "rb") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(b"Tgid:"))


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
