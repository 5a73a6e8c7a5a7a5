"""Bring the init of one worker into the world, in namespaces of its own where its profile asks for them.

Used by whoever has the powers of the host's user: a template, or an interpreter started for one module. An init can be
made before it is known what for: it then waits, holding nothing but one end of a socket, and ends when the other does.
What goes wrong is reported over the lifeline of the request that it happened to, and leaves no process behind.
"""

from __future__ import annotations

import os
import signal
import socket
from array import array
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import msgpack

from paddock_sandbox import mounts, namespaces
from paddock_sandbox.descriptors import close_all_but
from paddock_sandbox.profile import SandboxProfile
from paddock_sdk.worker import init

_WORKER_FDS: Final = 4  # rpc, stdout, stderr, lifeline
_MOST_FDS: Final = 250  # the kernel passes 253 at once


class Unborn:
    """The init of a worker to be, alone in its namespaces and waiting to be told which."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._pid = namespaces.fork_into_new()
            if self._pid == 0:
                _wait_to_be_born(theirs)
        except BaseException:
            self._line.close()
            raise
        finally:
            theirs.close()

    def become(self, request: dict[str, Any], fds: Sequence[int]) -> None:
        """Hand it the request and the worker's descriptors; it answers over the lifeline from then on.

        Raises:
            OSError: It cannot be; it has been ended.
        """
        try:
            if os.getuid() == 0:
                self._become_mapped(request, fds)
            else:
                self._tell({**request, "ids": [os.getuid(), os.getgid()]}, fds)
        except BaseException:
            self.abandon()
            raise
        self._line.close()

    def abandon(self) -> None:
        """End it."""
        self._line.close()
        os.kill(self._pid, signal.SIGKILL)

    def _become_mapped(self, request: dict[str, Any], fds: Sequence[int]) -> None:
        """Do for it what only root outside can: give it an id of its own, and that id what is granted."""
        profile = SandboxProfile.from_dict(request["profile"])
        outer = namespaces.unused_id()
        namespaces.map_ids_of(self._pid, outer)
        trees = mounts.open_trees(profile)
        try:
            own = os.open(f"/proc/{self._pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
            owners = mounts.OwnerMaps(own, outer)
            try:
                mounts.give_to(trees, profile, owners)
            finally:
                owners.close()
            self._tell(request, [*fds, *trees])
        finally:
            for tree in trees:
                os.close(tree)

    def _tell(self, request: dict[str, Any], fds: Sequence[int]) -> None:
        if len(fds) > _MOST_FDS:
            raise OSError(7, f"{len(fds) - _WORKER_FDS} paths to make visible are more than {_MOST_FDS - _WORKER_FDS}")
        socket.send_fds(self._line, [msgpack.packb(request)], list(fds))


def _wait_to_be_born(line: socket.socket) -> NoReturn:
    # First of all: a copy of another unborn's line, or of the host's socket, would keep it from ever closing.
    close_all_but(0, 1, 2, line.fileno())
    try:
        data, fds = receive(line, _MOST_FDS)
    except BaseException:
        os._exit(init.FAILED_BEFORE_ENTRY)
    if not data:
        os._exit(0)
    line.close()
    rpc, stdout, stderr, lifeline, *trees = fds
    init.run(msgpack.unpackb(data), rpc=rpc, stdout=stdout, stderr=stderr, lifeline=lifeline, trees=trees)


def start_alone(lifeline: int, rpc: int, stdout: int, stderr: int) -> NoReturn:
    """Become the init of one worker in an interpreter of its own, or the parent of that init and end.

    The request is the lifeline's first message.
    """
    init.prepare_process()
    data = os.read(lifeline, init.REQUEST_BYTES)
    if not data:
        os._exit(0)
    request = msgpack.unpackb(data)
    if request["profile"]["level"] != "ns":
        init.run(request, rpc=rpc, stdout=stdout, stderr=stderr, lifeline=lifeline)
    try:
        Unborn().become(request, (rpc, stdout, stderr, lifeline))
    except BaseException as error:
        init.report_failure(lifeline, "namespaces", error)
        os._exit(init.FAILED_BEFORE_ENTRY)
    os._exit(0)


def receive(line: socket.socket, most_fds: int) -> tuple[bytes, list[int]]:
    """Return the next message with its descriptors; nothing at the end."""
    fds = array("i")
    space = socket.CMSG_SPACE(most_fds * fds.itemsize)
    data, ancillary, _, _ = line.recvmsg(init.REQUEST_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, fds.tolist()
