"""Wait, with everything a worker needs already imported, and fork one worker's init for every request.

One process per host, started with an empty environment. It must have one thread whenever it forks, which is checked
each time, and it holds nothing of the host but the control socket. What goes wrong for one request is reported over
that request's lifeline and forgotten; the end of the control socket ends the process. Never reaps: the kernel does,
and each init answers for its own tree.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import os
import pkgutil
import signal
import socket
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import msgpack

from paddock_sandbox import prctl
from paddock_sdk.worker import init

_FDS = 4  # rpc, stdout, stderr, lifeline

# The C library's fork, called with the interpreter lock held, instead of os.fork: that would run what every imported
# package registered to happen after a fork, in a process that uses none of them, and most of an init's memory and
# half its start would be theirs. One thread before and after, so no lock is left held by nobody. The init forks its
# worker by os.fork, where all of it happens, once.
_libc = ctypes.PyDLL(None, use_errno=True)


def serve(control_fd: int, preload: Iterable[str], host: int) -> NoReturn:
    """Import what is to be shared, then fork an init for each request until the host closes the control socket."""
    prctl.set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != host:
        os._exit(0)
    control = socket.socket(fileno=control_fd)
    for name in _expanded(preload):
        importlib.import_module(name)
    # A first loop run resolves what asyncio does lazily, once for all workers instead of once in each.
    asyncio.run(asyncio.sleep(0))
    init.prepare_process()
    # Said explicitly, it makes the kernel reap the inits by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Objects that exist now are never visited by a worker's collector, so their pages stay shared.
    gc.disable()
    gc.collect()
    gc.freeze()
    while (received := _receive(control)) is not None:
        request, fds = received
        try:
            _fork_init(control, request, fds)
        finally:
            for fd in fds:
                os.close(fd)
    os._exit(0)


def _fork_init(control: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
    rpc, stdout, stderr, lifeline = fds
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        init.report(
            lifeline, {"failed": {"step": "template has one thread", "errno": 0, "detail": f"it has {threads}"}}
        )
        return
    child = _libc.fork()
    if child == -1:
        number = ctypes.get_errno()
        init.report_failure(lifeline, "fork", OSError(number, os.strerror(number)))
    elif child == 0:
        control.detach()
        init.run(request, rpc=rpc, stdout=stdout, stderr=stderr, lifeline=lifeline)


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next request with its descriptors, or None once the host is gone."""
    fds = array("i")
    space = socket.CMSG_SPACE(_FDS * fds.itemsize)
    data, ancillary, _, _ = control.recvmsg(init.REQUEST_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    if not data:
        return None
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return msgpack.unpackb(data), fds.tolist()


def _expanded(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, with `package.*` replaced by every module directly in that package."""
    for name in names:
        if not name.endswith(".*"):
            yield name
            continue
        package = importlib.import_module(name.removesuffix(".*"))
        yield package.__name__
        for module in pkgutil.iter_modules(package.__path__, prefix=package.__name__ + "."):
            yield module.name
