"""The host's end of the socket that ties a process tree's life to the host's.

It collects the reports of the init and, before its entry, of the worker, in any order, and sends commands to the init.
Closing it is the strongest command: the init then ends the tree. Everything here happens on the loop and nothing waits.
The sockets of a worker's own network arrive over it too; they were made before any code of the module ran.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paddock.workers.exit_report import FailedStep
from paddock_sandbox.cgroup import Cgroup
from paddock_sandbox.profile import LockdownReport
from paddock_sdk.worker.init_socket import unpack

Command = Literal["terminate", "kill"]
_MESSAGE_BYTES = 1 << 14
_PIDFDS = 2  # the init's and the worker's
_MOST_FDS = 253  # the kernel passes no more at once


@dataclass(frozen=True, slots=True)
class WorkerSockets:
    """A UDP socket for looking up names, and a listener for each of the profile's ports, in their order.

    None of them blocks. A connection's own name, as `getsockname` returns it, is the address that the module meant.
    """

    dns: socket.socket
    listeners: tuple[socket.socket, ...]

    @classmethod
    def of(cls, fds: Sequence[int]) -> WorkerSockets:
        """Return the sockets behind these descriptors, which own them from now on, the one for names first."""
        sockets = [socket.socket(fileno=fd) for fd in fds]
        for each in sockets:
            each.setblocking(False)
        return cls(sockets[0], tuple(sockets[1:]))

    def close(self) -> None:
        """Close all of them; the network ends with its worker then."""
        for each in (self.dns, *self.listeners):
            each.close()


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """The process ids of a worker and its init, the steps of confinement before the entry, and the working directory.

    `verdicts` are the results of acts that had to be refused, `missing` is what the worker's file system lacks.
    """

    init_pid: int
    worker_pid: int
    lockdown: LockdownReport
    verdicts: Mapping[str, str]
    missing: tuple[str, ...]
    working_dir: str


class InitSocket:
    """What was reported so far, and whether more can follow; takes over the socket.

    `cgroup` is the control group of the tree, which the init is not in; the object that ends the tree removes it.
    """

    def __init__(self, line: socket.socket, on_change: Callable[[], None]) -> None:
        self.ready: ReadyReport | None = None
        self.cgroup: Cgroup | None = None
        self.failed: FailedStep | None = None
        self.exited: dict[str, Any] | None = None
        self.is_open = True
        self._line = line
        self._on_change = on_change
        self._pidfds: list[int] = []
        self._pids: tuple[int, ...] = ()
        self._network: WorkerSockets | None = None
        self._inquiry: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        line.setblocking(False)
        self._loop.add_reader(line, self._read)

    def send(self, command: Command) -> None:
        """Send the init a command; once the tree is gone, the command is dropped."""
        if self.is_open:
            try:
                self._line.send(command.encode())
            except OSError:
                pass  # closed: its end is read in a moment. Full: a hundred commands are waiting to be obeyed already

    def hang_up(self) -> None:
        """End the tree as the host's own end would, and go on reading its last reports."""
        if self.is_open:
            try:
                self._line.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the other end was first

    def wake_init(self) -> None:
        """Let an init that was stopped by a signal go on, so that it can obey."""
        self._signal(self._pidfds[:1], signal.SIGCONT)

    def kill_worker(self) -> None:
        """Kill the worker itself; the init then ends what the worker started. Before it is ready, nothing happens."""
        self._signal(self._pidfds[1:], signal.SIGKILL)

    def kill_both(self) -> None:
        """Kill worker and init themselves, when the init obeys no more; this does not reach what else they started."""
        self._signal(reversed(self._pidfds), signal.SIGKILL)

    def take_network(self) -> WorkerSockets | None:
        """Hand over the sockets of the worker's own network, once."""
        network, self._network = self._network, None
        return network

    def take_inquiry(self) -> socket.socket | None:
        """Hand over the socket that answers for the worker's sockets, once."""
        inquiry, self._inquiry = self._inquiry, None
        return inquiry

    def close(self) -> None:
        """Stop listening and release every descriptor; a tree that still lives is ended by its init."""
        if self.is_open:
            self.is_open = False
            if not self._loop.is_closed():
                self._loop.remove_reader(self._line)
            self._line.close()
            while self._pidfds:
                os.close(self._pidfds.pop())
            if (network := self.take_network()) is not None:
                network.close()
            if (inquiry := self.take_inquiry()) is not None:
                inquiry.close()

    @staticmethod
    def _signal(pidfds: Iterable[int], number: signal.Signals) -> None:
        for pidfd in pidfds:
            try:
                signal.pidfd_send_signal(pidfd, number)
            except (ProcessLookupError, PermissionError):
                pass  # ended, which was its purpose

    def _read(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._line, _MESSAGE_BYTES, _MOST_FDS, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, ConnectionResetError):
            # Reset: the init ended before it read a command. The kernel reports that once, ahead of the init's own
            # last reports, which the next call reads.
            return
        except OSError:
            data, fds = b"", []
        if data:
            self._note(data, fds)
        else:
            if self.exited is None:
                self.kill_both()
            self.close()
        self._on_change()

    def _note(self, data: bytes, fds: list[int]) -> None:
        for kind, body in unpack(data).items():
            if kind == "network":
                self._take_sockets(fds, body)
            elif kind == "inquiry" and len(fds) == body == 1:
                self._inquiry = socket.socket(fileno=fds[0])
            elif kind == "pidfds":
                self._pidfds = fds
                self._pids = tuple(map(_pid_of, fds))  # while there is a receiver for them
            elif kind == "ready":
                self._take_ready(body)
            elif kind == "cgroup":
                self.cgroup = Cgroup.from_dict(body)
            elif kind == "failed":
                self.failed = FailedStep(body["step"], body["errno"], body["detail"])
            elif kind == "exited":
                self.exited = body

    def _take_sockets(self, fds: list[int], expected: int) -> None:
        if len(fds) == expected:
            self._network = WorkerSockets.of(fds)
            return
        for fd in fds:
            os.close(fd)
        self.failed = _too_few("network")

    def _take_ready(self, body: Mapping[str, Any]) -> None:
        if len(self._pidfds) != _PIDFDS:
            self.failed = _too_few("pidfds")
            return
        init, worker = self._pids
        level, steps, protections = body["lockdown"]
        self.ready = ReadyReport(
            init,
            worker,
            LockdownReport(level, tuple(steps), tuple(protections)),
            body["verdicts"],
            tuple(body["missing"]),
            body["working_dir"],
        )


def _too_few(step: str) -> FailedStep:
    """Explain why sent descriptors did not arrive: the kernel passes on only as many as the receiver may have."""
    return FailedStep(step, errno.EMFILE, "this process may not open any more descriptors")


def _pid_of(pidfd: int) -> int:
    """Return the process's number in the host's namespace, not the one in its own; -1 once it is reaped."""
    with open(f"/proc/self/fdinfo/{pidfd}") as facts:
        return next(int(line.split()[1]) for line in facts if line.startswith("Pid:"))
