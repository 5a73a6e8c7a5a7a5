"""Fork a worker and its init ahead of the request for them, in namespaces of their own.

It is used by processes with the powers of the host's user: a template, or an interpreter started for one module. The
worker makes a root with the mounts that all workers share, and both wait for their request. They end when their sockets
close. A failure is reported over the init socket of the request that it happened to, and leaves no process behind.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

from paddock_sandbox import capabilities, ipc, mounts, namespaces
from paddock_sandbox.cgroup import Cgroup, CgroupHome, enter
from paddock_sandbox.descriptors import close_all_but
from paddock_sandbox.profile import Mount, SandboxProfile
from paddock_sandbox.title import set_title
from paddock_sdk.worker import init, sandbox_entry
from paddock_sdk.worker.fresh_process import prepare_process
from paddock_sdk.worker.init_socket import (
    FAILED_BEFORE_ENTRY,
    REQUEST_BYTES,
    pack,
    receive,
    report,
    report_failure,
    unpack,
)

_WORKER_FDS: Final = 4  # rpc, stdout, stderr, init socket
_GROUP: Final = "worker"
_MOST_FDS: Final = 250  # the kernel passes 253 at once


class PreforkedWorker:
    """A waiting worker and its init, in their namespaces, with a root that has `shared` in it.

    The request's profile must have those mounts too, under none of its others.

    Raises:
        OSError: it cannot be made; nothing is left of it.
    """

    def __init__(self, shared: Sequence[Mount], groups: CgroupHome | None) -> None:
        self.shared = tuple(shared)
        self._outer = namespaces.unused_id() if os.getuid() == 0 else None
        self._owners = None if self._outer is None else mounts.OwnerMaps(self._outer)
        self._to_init, init_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._to_worker, worker_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._group: Cgroup | None = None
        self._pidfd = -1
        doors: list[int] = []
        try:
            self._group = None if groups is None else groups.create(_GROUP)
            doors = [] if self._group is None else self._group.doors()
            host = os.getppid()
            self._pid = namespaces.fork_into_new()
            if self._pid == 0:
                counts_memory = self._group is not None and "memory" in self._group.controllers
                _run_init(init_line, worker_line, self.shared, doors, host, counts_memory=counts_memory)
            # When it is abandoned, it may have ended, and its number may belong to another process.
            self._pidfd = os.pidfd_open(self._pid)
            # An ordinary user's ids are mapped to themselves; for root there are none, as root maps them here.
            ids = None
            if self._outer is None:
                ids = [os.getuid(), os.getgid()]
            else:
                namespaces.map_ids_of(self._pid, self._outer)
            self._to_init.send(pack(ids))
            self._send_to_worker(ids, self.shared)
        except BaseException:
            self.abandon()
            raise
        finally:
            init_line.close()
            worker_line.close()
            for door in doors:
                os.close(door)

    @property
    def has_ended(self) -> bool:
        """Whether it is dead, so that it would not receive a request."""
        lines = select.poll()
        lines.register(self._to_init, 0)
        lines.register(self._to_worker, 0)
        return bool(lines.poll(0))

    def assign(self, request: dict[str, Any], profile: SandboxProfile, fds: Sequence[int]) -> None:
        """Hand over the request and the worker's descriptors, the init socket last; answers come over that from then
        on.

        Raises:
            OSError: it cannot be; it has been ended.
        """
        init_socket = fds[-1]
        if self._group is not None:
            report(init_socket, {"cgroup": self._group.as_dict()})  # the host sees to its end from here on
            self._group = None
        try:
            self._send_to_worker(request, _without(self.shared, profile), fds)
            socket.send_fds(self._to_init, [pack(request["title"])], [init_socket])
        except BaseException:
            self.abandon()
            raise
        self._close()

    def abandon(self) -> None:
        """End it."""
        if self._pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._close()
        if self._group is not None:
            self._group.remove()

    def _close(self) -> None:
        self._to_init.close()
        self._to_worker.close()
        if self._owners is not None:
            self._owners.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _send_to_worker(self, message: object, sources: Sequence[Mount], fds: Sequence[int] = ()) -> None:
        """Send a message and descriptors; for root also the trees, which only it can make the worker's own."""
        if len(fds) + len(sources) > _MOST_FDS:
            raise OSError(errno.E2BIG, f"no more than {_MOST_FDS - _WORKER_FDS} paths can be made visible")
        trees = [] if self._owners is None else mounts.open_trees(mount.source for mount in sources)
        try:
            if self._owners is not None:
                mounts.give_to_worker(trees, sources, self._owners)
            socket.send_fds(self._to_worker, [pack(message)], [*fds, *trees])
        finally:
            for tree in trees:
                os.close(tree)


def _run_init(
    line: socket.socket,
    worker_line: socket.socket,
    shared: Sequence[Mount],
    doors: Sequence[int],
    host: int,
    *,
    counts_memory: bool,
) -> NoReturn:
    """Be process 1: set up its ids, fork the worker, and then only wait, so as to stay small."""
    try:
        # First of all: a copy of another worker's line, or of the host's socket, would keep it from ever closing.
        close_all_but(0, 1, 2, line.fileno(), worker_line.fileno(), *doors)
        set_title(f"made ahead [host {host}]", "paddock-ahead")
        ids, _ = _received(line)
        if ids is None:
            namespaces.take_mapped_ids()
        else:
            namespaces.map_own_ids(*ids)
        if not counts_memory:
            with suppress(OSError):  # where it is impossible, the filter of system calls refuses System V objects
                ipc.enter_bounded_namespace()
        capabilities.close_ways_back()  # once for both
        init.prepare_for_children()
        worker = os.fork()
        if worker == 0:
            line.close()
            _run_worker(worker_line, shared, doors, counts_memory=counts_memory)
        worker_line.close()
        for door in doors:
            os.close(door)
        init.drop_privileges()
        title, (init_socket,) = _received(line)
        set_title(f"init of {title}", init.SHORT_NAME)
        line.close()
    except BaseException:
        os._exit(FAILED_BEFORE_ENTRY)
    try:
        init.supervise_until_exit(worker, init_socket)
    except BaseException as error:
        init.report_and_exit(init_socket, error)


def _run_worker(
    line: socket.socket,
    shared: Sequence[Mount],
    doors: Sequence[int],
    *,
    counts_memory: bool,
) -> NoReturn:
    """Be the worker: make a root and get ready, wait for the request, finish the root and enter."""
    root: mounts.NewRoot | OSError
    refused = None
    try:
        close_all_but(0, 1, 2, line.fileno(), *doors)
        try:
            enter(doors)  # takes a while, and no request waits for it
        except OSError as error:
            refused = error  # no request exists yet to report it to, here and below
        ids, trees = _received(line)
        try:
            opened = trees if ids is None else mounts.open_trees(mount.source for mount in shared)
            socket.sethostname("paddock")
            root = mounts.NewRoot()
            root.attach(shared, opened)
        except OSError as error:
            root = error
        poller = select.poll()
        poller.register(line, select.POLLIN)
        if not poller.poll(0):  # a request that is here already waits for nothing
            sandbox_entry.warm_up()
        request, (rpc, stdout, stderr, init_socket, *trees) = _received(line)
        line.close()
    except BaseException:
        os._exit(FAILED_BEFORE_ENTRY)
    step = "control group"
    try:
        if refused is not None:
            raise refused
        step = "file system"
        if isinstance(root, OSError):
            raise root
        profile = SandboxProfile.from_dict(request["profile"])
        if request["tries_to_hold"]:
            root.try_to_hold()
        _finish(root, profile, _without(shared, profile), trees if ids is None else None)
    except BaseException as error:
        report_failure(init_socket, step, error)
        os._exit(FAILED_BEFORE_ENTRY)
    sandbox_entry.enter_sandbox_and_run(
        request["entry"],
        profile,
        init=os.getppid(),
        rpc=rpc,
        stdout=stdout,
        stderr=stderr,
        init_socket=init_socket,
        counts_memory=counts_memory,
        missing=root.missing,
    )


def _finish(
    root: mounts.NewRoot,
    profile: SandboxProfile,
    own: Sequence[Mount],
    trees: Sequence[int] | None,
) -> None:
    """Attach the mounts that only this worker sees, and enter."""
    opened = mounts.open_trees(mount.source for mount in own) if trees is None else trees
    root.attach_scratch(profile.scratch, profile.tmp_bytes, mappable=profile.may_execute_all)
    root.attach(own, opened)
    root.hold(profile.links)
    root.close(profile.closed)
    root.enter()


def _without(shared: Sequence[Mount], profile: SandboxProfile) -> list[Mount]:
    """Return the mounts of a profile that are not made yet, in their order."""
    made = set(shared)  # a look at each of forty mounts costs every start a millisecond
    return [mount for mount in profile.mounts if mount not in made]


def _received(line: socket.socket) -> tuple[Any, list[int]]:
    data, fds = receive(line, _MOST_FDS)
    if not data:
        os._exit(0)  # there will be no request
    return unpack(data), fds


def start_single_worker(
    init_socket: int, rpc: int, stdout: int, stderr: int, cgroups: dict[str, Any] | None
) -> NoReturn:
    """Become the init of one worker in an interpreter of its own, or the parent of that init and end.

    The request is the init socket's first message; `cgroups` is where a control group for it can be made.
    """
    prepare_process()
    groups = None if cgroups is None else CgroupHome.from_dict(cgroups)
    data = os.read(init_socket, REQUEST_BYTES)
    if not data:
        os._exit(0)
    request = unpack(data)
    if request["profile"]["level"] != "ns":
        request = with_group(request, groups, init_socket)
        init.run(request, rpc=rpc, stdout=stdout, stderr=stderr, init_socket=init_socket)
    try:
        PreforkedWorker((), groups).assign(
            request, SandboxProfile.from_dict(request["profile"]), (rpc, stdout, stderr, init_socket)
        )
    except BaseException as error:
        report_failure(init_socket, "namespaces", error)
        os._exit(FAILED_BEFORE_ENTRY)
    os._exit(0)


def with_group(request: dict[str, Any], groups: CgroupHome | None, init_socket: int) -> dict[str, Any]:
    """Return the request with a new control group, for the worker to enter by itself; reports the group to the host."""
    group = None if groups is None else groups.create(_GROUP).as_dict()
    if group is not None:
        report(init_socket, {"cgroup": group})
    return {**request, "cgroup": group}
