"""Wait, with all imports of a worker done, and fork one worker's init for every request.

This process is what the host calls the template. In idle moments it forks the next worker ahead, as far as it is the
same for all. There is one such process per host, started with an empty environment. It must have one thread whenever it
forks, which is checked each time. It holds nothing of the host but the control socket. A request that fails is reported
over its init socket and forgotten; the end of the control socket ends the process. It never reaps: the kernel does, and
each init is responsible for its own tree.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from paddock_sandbox import capabilities, lockdown, namespaces, prctl
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.mounts import SHARED_FOLDERS
from paddock_sandbox.profile import Mount, SandboxProfile
from paddock_sandbox.title import set_title
from paddock_sdk.worker import init, prefork, sandbox_entry
from paddock_sdk.worker.fresh_process import prepare_process
from paddock_sdk.worker.immortal import make_immortal
from paddock_sdk.worker.init_socket import receive, report, report_failure, unpack

_FDS = 4  # rpc, stdout, stderr, init socket
_FEW = 4  # workers; what they can share is not worth the tenth of a second that it takes to have it shared
_QUIET_MS = 10  # a worker that has just been started has the processor to itself


def serve(control_fd: int, preload: Iterable[str], host: int, quiet_ms: int = _QUIET_MS) -> NoReturn:
    """Import the shared code, then fork an init for each request until the host closes the control socket.

    The host's first message has `shared`, the mounts that all workers' roots have in common, and `cgroups`, where
    groups for them can be made. The host may know them only after the imports here. The next worker is made ahead after
    `quiet_ms` without a request.
    """
    # Nearly all of the 60,000 objects made here stay. To look for the others takes an eighth of the start.
    gc.disable()
    prctl.set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != host:
        os._exit(0)
    set_title(f"template [host {host}]", "paddock-templat")
    control = socket.socket(fileno=control_fd)
    for name in _expanded(preload):
        importlib.import_module(name)
    if (runtime := sys.modules.get("paddock_sdk.worker.main")) is not None:  # commands have another
        runtime.rehearse()
    sandbox_entry.warm_up()  # once for all workers instead of once in each
    capabilities.held()  # each init then knows how many there are, and copies fewer pages
    prepare_process()
    # Set explicitly, it makes the kernel reap the inits by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Objects that exist now are never visited by a worker's collector, so their pages stay shared.
    gc.freeze()
    settings, _ = receive(control, 0)
    if not settings:
        os._exit(0)
    asked = unpack(settings)
    groups = None if asked["cgroups"] is None else CgroupHome.from_dict(asked["cgroups"])
    spare_pool = SparePool([Mount(*mount) for mount in asked["shared"]], groups)
    served = 0
    quiet = select.poll()
    quiet.register(control, select.POLLIN)
    while True:
        if not quiet.poll(quiet_ms):
            spare_pool.refill()
            quiet.poll()
        if served == _FEW:
            make_immortal()  # while no request is here: it would be kept, and seen by all workers that are forked later
        if not _serve_one(spare_pool, control):
            spare_pool.close()
            os._exit(0)
        served += 1


def _serve_one(spare_pool: SparePool, control: socket.socket) -> bool:
    """Fork an init for the next request; return False once the host is gone."""
    received = _receive(control)
    if received is None:
        return False
    request, fds = received
    try:
        _fork_init(spare_pool, control, request, fds)
    finally:
        for fd in fds:
            os.close(fd)
    return True


class SparePool:
    """Prepares the next worker before it is requested."""

    def __init__(self, shared: Sequence[Mount], groups: CgroupHome | None) -> None:
        self.groups = groups
        # Mounts in the private folder have to be made after it.
        self._shared = tuple(mount for mount in shared if not _is_below_any(mount.target, SHARED_FOLDERS))
        self._next: prefork.PreforkedWorker | None = None
        self._is_wanted = False

    def take(self, profile: SandboxProfile) -> prefork.PreforkedWorker:
        """Return a preforked worker whose root has some of these mounts, and none that another mount must lie over.

        Raises:
            OSError: none could be made.
        """
        if not _can_be_first(self._shared, profile):
            return prefork.PreforkedWorker((), self.groups)
        self._is_wanted = True
        ready, self._next = self._next, None
        if ready is not None and ready.has_ended:
            ready.abandon()
            ready = None
        return ready or prefork.PreforkedWorker(self._shared, self.groups)

    def refill(self) -> None:
        """Prepare a worker, if one was ever requested."""
        if self._is_wanted and self._next is None:
            try:
                self._next = prefork.PreforkedWorker(self._shared, self.groups)
            except OSError:
                self._is_wanted = False  # the next request reports the reason

    def close(self) -> None:
        """End the unused worker."""
        if self._next is not None:
            self._next.abandon()


def _can_be_first(first: Sequence[Mount], profile: SandboxProfile) -> bool:
    """Return whether the root comes to the same when `first` of its mounts are made before all else in it."""
    mounts = set(profile.mounts)
    others = mounts.difference(first)
    covers = [profile.scratch, *SHARED_FOLDERS, *(mount.target for mount in others)]
    return len(mounts) == len(others) + len(first) and not any(_is_below_any(mount.target, covers) for mount in first)


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _fork_init(spare_pool: SparePool, control: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
    rpc, stdout, stderr, init_socket = fds
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        report(init_socket, {"failed": {"step": "template has one thread", "errno": 0, "detail": f"it has {threads}"}})
        return
    try:
        profile = SandboxProfile.from_dict(request["profile"])
        lockdown.compile_filters(
            profile, counts_memory=spare_pool.groups is not None and spare_pool.groups.counts_memory
        )  # once for all workers of its kind
        if profile.level == "ns":
            spare_pool.take(profile).assign(request, profile, fds)
        else:
            request = prefork.with_group(request, spare_pool.groups, init_socket)
            if namespaces.fork_plainly() == 0:
                control.detach()
                init.run(request, rpc=rpc, stdout=stdout, stderr=stderr, init_socket=init_socket)
    except (OSError, ValueError, KeyError, TypeError) as error:
        report_failure(init_socket, "namespaces", error)


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next request with its descriptors, or None once the host is gone."""
    data, fds = receive(control, _FDS)
    return (unpack(data), fds) if data else None


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
