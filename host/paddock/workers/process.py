"""One live process tree of a module: its socket, its output, its end.

A launcher makes one for each start. The kernel reports the end by closing the init socket; nothing is polled. `stop`
always ends the tree, even when its caller is cancelled, and every wait in it is bounded. When the tree is gone,
everything is released except `rpc`, which belongs to the code that speaks on it. This file does not know that protocol.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio

from paddock.errors import LaunchError
from paddock.workers.exit_report import ExitStatus
from paddock.workers.init_socket import InitSocket, ReadyReport, WorkerSockets
from paddock.workers.output import OutputLine, OutputRate, OutputRing
from paddock.workers.pipes import ChildPipes
from paddock_sandbox.cgroup import Cgroup, CgroupReadings
from paddock_sdk.worker.attempts import attempt_log

_logger = logging.getLogger(__name__)

_KILL_SECONDS = 7.0  # more than an init takes to give up on a descendant that cannot be killed
_LOST_SECONDS = 1.0  # for the end of an init that was killed itself
_LAST_WORDS_SECONDS = 1.0  # for output still in the pipes when the tree is gone; only a foreign holder runs this out

REMOVAL_SECONDS = 2.0  # for the kernel to release a dead tree

ENDED_SILENTLY = "start"  # the step named when no process was left to name one


class ModuleProcess:
    """A process tree between its launch and its end, as the host sees it.

    Signals go through its methods, which cannot hit another process.
    """

    def __init__(
        self,
        name: str,
        child_pipes: ChildPipes,
        log_limit_bytes: int,
        on_line: Callable[[OutputLine], None] | None,
        rate: OutputRate | None = None,
    ) -> None:
        self.name = name
        self.rpc = child_pipes.rpc
        self.output = OutputRing(child_pipes.stdout, child_pipes.stderr, log_limit_bytes, on_line, rate)
        # Once it has ended: the module's attempts that were not sent to the host before.
        self.last_attempts: tuple[tuple[attempt_log.Kind, str], ...] = ()
        self.opened_paths: Mapping[attempt_log.Kind, Sequence[int]] = {}
        self._attempts = child_pipes.attempts
        self._loop = asyncio.get_running_loop()
        self._since = time.monotonic()
        self._until: float | None = None
        self._said = asyncio.Event()
        self._end: asyncio.Future[ExitStatus] = self._loop.create_future()
        self._init_socket = InitSocket(child_pipes.init_socket, self._listen)

    @property
    def status(self) -> ExitStatus | None:
        """How the tree ended, or None while it lives."""
        return self._end.result() if self._end.done() else None

    @property
    def cgroup(self) -> Cgroup | None:
        """The control group of the tree, which its init is not in; None if there is none."""
        return self._init_socket.cgroup

    @property
    def ready(self) -> ReadyReport:
        """The worker's report on its confinement before its entry; there once a launcher handed the process out."""
        assert self._init_socket.ready is not None
        return self._init_socket.ready

    @property
    def pid(self) -> int:
        """The worker's number, for people."""
        return self.ready.worker_pid

    @property
    def init_pid(self) -> int:
        """The number of the worker's init, for people."""
        return self.ready.init_pid

    @property
    def is_traced(self) -> bool:
        """Whether a debugger is attached to the worker; no module can be one, since none may call ptrace."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_bytes()
        except OSError:
            return False
        return b"\nTracerPid:\t0\n" not in status

    async def entered(self) -> None:
        """Return once the worker is locked down and enters its entry.

        Raises:
            LaunchError: a step failed, or the process ended before it reported anything.
        """
        while True:
            # If there are both, the failure counts: perhaps the host did not get what the worker sent.
            if (failed := self._init_socket.failed) is not None:
                raise LaunchError(self.name, failed.step, failed.reason, errno=failed.errno)
            if self._init_socket.ready is not None:
                return
            if not self._init_socket.is_open:
                await self.wait()
                last_words = self.output.tail(1, "stderr")
                raise LaunchError(self.name, ENDED_SILENTLY, "; ".join(["it ended before it was ready", *last_words]))
            self._said.clear()
            await self._said.wait()

    def take_network(self) -> WorkerSockets | None:
        """Hand over the sockets of the network that the worker made for itself, once; None where there are none.

        The caller that takes them closes them; otherwise they are closed with the tree's end.
        """
        return self._init_socket.take_network()

    def take_inquiry(self) -> socket.socket | None:
        """Hand over the socket that answers for the worker's own network namespace, once; as `take_network`."""
        return self._init_socket.take_inquiry()

    async def wait(self) -> ExitStatus:
        """Return how the tree ended, once all its processes have and its output is read."""
        return await asyncio.shield(self._end)  # a cancelled waiter leaves the end to the others

    def on_exit(self, callback: Callable[[ExitStatus], None]) -> None:
        """Call back on the loop when the tree has ended and its output is read; soon, if it has."""
        self._end.add_done_callback(lambda end: callback(end.result()))

    def terminate(self) -> None:
        """Ask the worker to end, by SIGTERM to its process group."""
        self._init_socket.send("terminate")

    def kill(self) -> None:
        """End the whole tree, by SIGKILL; returns before it has ended.

        The worker does nothing more, even if its connection closes before the init gets to run.
        """
        self._init_socket.kill_worker()
        self._init_socket.send("kill")
        self._init_socket.wake_init()

    async def stop(self, grace: float) -> ExitStatus:
        """End the tree: ask, and `grace` seconds later kill; return how it ended.

        If the caller is cancelled, the tree is still ended first. If the cancellation cannot be held off, the init does
        the kill.
        """
        try:
            with anyio.CancelScope(shield=True):
                self.terminate()
                if not await self._ends_within(grace):
                    self.kill()
                    if not await self._ends_within(_KILL_SECONDS):
                        self._init_socket.kill_both()
                        if not await self._ends_within(_LOST_SECONDS):
                            self._release()
        except BaseException:
            # A task cancelled by asyncio's own means gets past the shield; its process does not get away.
            self.kill()
            raise
        return await self.wait()

    async def abandon(self) -> None:
        """End the tree as if the host were gone and release everything, `rpc` included.

        If a cancellation cannot be held off, the means of noticing the tree's end are released too.
        """
        self.rpc.close()
        self._init_socket.hang_up()
        with anyio.CancelScope(shield=True):
            await self._ends_within(_KILL_SECONDS)
        self._release()

    async def _ends_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.wait()
        return self._end.done()

    def _release(self) -> None:
        self._init_socket.close()
        self.output.close()
        self._listen()

    def _listen(self) -> None:
        self._said.set()
        if not self._init_socket.is_open and self._until is None:
            self._until = time.monotonic()
            exited = self._init_socket.exited
            if (exited is None or exited.get("left_behind")) and self.cgroup is not None:
                # What is left of the tree, since its init was killed or could not end it.
                self._tidy(self.cgroup.kill, "a process that it started cannot be ended")
            giving_up = self._loop.call_later(_LAST_WORDS_SECONDS, self.output.close)
            self.output.when_drained(giving_up.cancel)
            self.output.when_drained(partial(self._settle, self._until - self._since))

    def _settle(self, uptime: float) -> None:
        self._read_attempts()
        exited = self._init_socket.exited or {}
        status = ExitStatus(
            code=exited.get("code"),
            signal=exited.get("signal"),
            uptime=uptime,
            peak_memory_bytes=exited.get("peak_rss"),
            user_time=exited.get("user_time"),
            system_time=exited.get("system_time"),
            left_behind=exited.get("left_behind", 0),
            failed_step=self._init_socket.failed,
            used=self._give_up_group(),
        )
        if not self._end.cancelled():
            self._end.set_result(status)

    def _read_attempts(self) -> None:
        try:
            noted = os.pread(self._attempts, attempt_log.SIZE, 0)
            self.last_attempts = tuple(attempt_log.read(noted))
            self.opened_paths = attempt_log.opened_paths(noted)
        except OSError as error:
            _logger.warning("%s: what it last reached for cannot be read: %s", self.name, error)
        finally:
            os.close(self._attempts)

    def _give_up_group(self) -> CgroupReadings | None:
        """Read what the tree's control group counted, and remove it."""
        group = self._init_socket.cgroup
        if group is None:
            return None
        readings = None
        try:
            readings = group.readings()
            if not group.remove(within=0):
                self._tidy(partial(group.remove, REMOVAL_SECONDS), "its control group is still in use, and stays")
        except OSError as error:
            _logger.warning("%s: its control group cannot be read or removed: %s", self.name, error)
        return readings

    def _tidy(self, act: Callable[[], bool], left: str) -> None:
        """Do something to the tree's control group in a thread, as the kernel may take its time; log what is `left`."""

        def tidy() -> None:
            try:
                if not act():
                    _logger.warning("%s: %s", self.name, left)
            except OSError as error:
                _logger.warning("%s: its control group cannot be read or removed: %s", self.name, error)

        self._loop.run_in_executor(None, tidy)
