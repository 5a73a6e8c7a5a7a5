"""Wait, with everything a worker needs already imported, and fork one worker's init for every request.

One process per host, started with an empty environment. It must have one thread whenever it forks, which is checked
each time, and it holds nothing of the host but the control socket. What goes wrong for one request is reported over
that request's lifeline and forgotten; the end of the control socket ends the process. Never reaps: the kernel does,
and each init answers for its own tree.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import pkgutil
import signal
import socket
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import msgpack

from paddock_sandbox import namespaces, prctl
from paddock_sdk.worker import birth, init

_FDS = 4  # rpc, stdout, stderr, lifeline


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
    try:
        if request["profile"]["level"] == "ns":
            birth.Unborn().become(request, fds)
        elif namespaces.fork_plainly() == 0:
            control.detach()
            init.run(request, rpc=rpc, stdout=stdout, stderr=stderr, lifeline=lifeline)
    except OSError as error:
        init.report_failure(lifeline, "fork", error)


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next request with its descriptors, or None once the host is gone."""
    data, fds = birth.receive(control, _FDS)
    return (msgpack.unpackb(data), fds) if data else None


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
