"""The interface between code that wants a module process and code that starts one; and the control groups made on the
way.

A group first belongs to the process that made it, and to its worker's `ModuleProcess` once the host is informed of it.
If that process is killed in between, or holds a group ready for the next worker, `WorkerCgroups` removes the group. A
group whose worker is known here is never touched: its counters are read when the worker has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

import anyio

from paddock.errors import LaunchError
from paddock.time_limit import while_running
from paddock.workers.limits.tree_limits import TreeLimits
from paddock.workers.output import OutputLine, OutputRate
from paddock.workers.pipes import ChildPipes
from paddock.workers.process import REMOVAL_SECONDS, ModuleProcess
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox import self_check
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import SandboxProfile
from paddock_sdk.worker.init_socket import PARTICULARS_LENGTH, pack

_START_SECONDS = 30.0  # an exec'd runtime on a machine under heavy load; a usual start takes milliseconds

# Fits the default buffer of a unix socket (208 KiB), because a request is one datagram.
_REQUEST_BYTES = 128 << 10


SELF_CHECK: Final = "self-check"
"""The step of a launch that fails when a worker can do what its level forbids."""
MODULE_ENTRY: Final = "paddock_sdk.worker.main:serve"
_TITLE_CHARACTERS: Final = 4  # of a session's id: enough to tell a few apart by eye
_OUTPUT_AT_ONCE: Final = 16  # times the bytes that may be printed in a second


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """The process to start: its name in messages, its working directory, its whole environment, and its sandbox.

    `session` is the id of the session that it is for, if it is for one; its title has the beginning of that. `entry` is
    the function that the process runs once it is confined, as `module:function`. `tree_limits` are the
    limits of all its processes together.

    A working directory that the worker may not enter is replaced by the root. `home_links` are made in its home, by
    their names in there. Files that it makes lack the rights in `umask`. With `tries_to_hold`, the worker's report says
    whether links can be held in its root.
    """

    name: str
    working_dir: Path
    environ: Mapping[str, str]
    runtime: WorkerRuntime
    entry: str = MODULE_ENTRY
    profile: SandboxProfile = field(default_factory=SandboxProfile)
    tree_limits: TreeLimits = field(default_factory=TreeLimits)
    home_links: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o077
    tries_to_hold: bool = False
    log_limit_bytes: int = 1 << 16
    on_line: Callable[[OutputLine], None] | None = None
    session: str = ""
    output_per_second: int | None = None  # bytes that are handed on, and sixteen times that at once; None: all

    @property
    def title(self) -> str:
        """How the process is named for people: `tool-bash [98d5]`."""
        return f"{self.name} [{self.session[:_TITLE_CHARACTERS]}]" if self.session else self.name

    def rate(self) -> OutputRate | None:
        """Return the rate of what one process prints."""
        per_second = self.output_per_second
        return OutputRate(per_second, _OUTPUT_AT_ONCE * per_second) if per_second is not None else None

    def request(self) -> bytes:
        """Return the request for the process that forks the worker, without what only the worker may know.

        Raises:
            LaunchError: the profile is too large to hand over.
        """
        return self._packed(
            "profile",
            {
                "entry": self.entry,
                "profile": self.profile.as_dict(),
                "title": self.title,
                "tries_to_hold": self.tries_to_hold,
            },
        )

    def particulars(self) -> bytes:
        """Return the data for the worker itself, with its length in front.

        Raises:
            LaunchError: the environment is too large to hand over.
        """
        private = {
            "name": self.name,
            "title": self.title,
            # What runs a program for Paddock itself must not pass for that program.
            "short_name": self.name if self.session else f"paddock-{self.name}",
            "working_dir": str(self.working_dir),
            "environ": dict(self.environ),
            "home_links": dict(self.home_links),
            "umask": self.umask,
        }
        packed = self._packed("environment", private)
        return PARTICULARS_LENGTH.pack(len(packed)) + packed

    def _packed(self, what: str, message: Mapping[str, object]) -> bytes:
        packed = pack(message)
        if len(packed) > _REQUEST_BYTES:
            raise LaunchError(
                self.name,
                "request",
                f"its {what} takes {len(packed)} bytes, {_REQUEST_BYTES} can be handed over",
                hints=["grant it fewer or shorter paths and environment variables"],
            )
        return packed


class Launcher(Protocol):
    """Starts processes. Each process belongs to its caller; the maker of a launcher closes its own means."""

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that has locked itself down and is entering its entry.

        A failed or cancelled launch leaves neither a process nor a descriptor behind.

        Raises:
            LaunchError: no such process could be made; the step that failed is named.
        """
        ...


@dataclass(frozen=True, slots=True)
class InTurn:
    """A launcher that has few launches under way at once; what a launch waits for its turn is not part of its time."""

    launcher: Launcher
    turns: anyio.CapacityLimiter

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that is entering its entry; see `Launcher.launch`."""
        async with self.turns:
            return await self.launcher.launch(spec)


async def launch_through(spec: LaunchSpec, hand_over: Callable[[ChildPipes], Awaitable[None]]) -> ModuleProcess:
    """Wire a process up, hand over the worker's ends, and return the process once it enters its entry.

    All launchers share this part: if a step fails, or the caller is cancelled, the tree is ended and everything
    released.

    Raises:
        LaunchError: a step failed or took too long.
        OSError: the hand-over failed.
    """
    particulars = spec.particulars()
    try:
        child_pipes = ChildPipes()
    except OSError as error:
        raise LaunchError(spec.name, "sockets and pipes", str(error)) from error
    process = ModuleProcess(spec.name, child_pipes, spec.log_limit_bytes, spec.on_line, spec.rate())
    try:
        with while_running(anyio.fail_after(_START_SECONDS)):
            try:
                child_pipes.tell_worker(particulars)
                await hand_over(child_pipes)
            finally:
                child_pipes.close_worker_ends()
            await process.entered()
            _require_it_holds(spec, process)
    except TimeoutError:
        await process.abandon()
        raise LaunchError(spec.name, "start", f"it was not ready within {_START_SECONDS:g} s") from None
    except BaseException:
        await process.abandon()
        raise
    return process


def _require_it_holds(spec: LaunchSpec, process: ModuleProcess) -> None:
    """Refuse a worker that reports a successful act that its level promises to refuse."""
    breaches = self_check.breaches(spec.profile, process.ready.verdicts)
    if process.ready.lockdown.level != spec.profile.level:
        breaches = (f"its level, which is {process.ready.lockdown.level}", *breaches)
    if breaches:
        raise LaunchError(
            spec.name, SELF_CHECK, f"not as isolation {spec.profile.level} promises: {', '.join(breaches)}"
        )


class WorkerCgroups:
    """The workers of one template, or of one interpreter for one worker, and their control groups."""

    def __init__(self, groups: CgroupHome | None) -> None:
        """`groups` is where control groups can be made, if anywhere."""
        self._groups = None if groups is None else groups.for_one_maker()
        self._workers: WeakSet[ModuleProcess] = WeakSet()
        self._under_way = 0
        self._has_ended = False

    @property
    def cgroups(self) -> dict[str, object] | None:
        """Where the process is to make the groups, as plain data."""
        return None if self._groups is None else self._groups.as_dict()

    async def launch(self, spec: LaunchSpec, hand_over: Callable[[ChildPipes], Awaitable[None]]) -> ModuleProcess:
        """Return a worker that the process starts; see `launch_through`."""
        self._under_way += 1
        try:
            process = await launch_through(spec, hand_over)
            self._workers.add(process)
            return process
        finally:
            self._under_way -= 1
            self._tidy()

    def remove_groups(self) -> None:
        """Have the groups without an owner removed, soon: the process that started the workers is dead."""
        self._has_ended = True
        self._tidy()

    def _tidy(self) -> None:
        # A worker that is starting may have a group that the host does not know yet, or that it has yet to enter.
        if self._groups is None or not self._has_ended or self._under_way:
            return
        taken = {worker.cgroup.name for worker in self._workers if worker.cgroup is not None}
        asyncio.get_running_loop().run_in_executor(None, _remove, self._groups, taken)


def _remove(groups: CgroupHome, taken: Collection[str]) -> None:
    try:
        if not groups.remove_empty(taken, REMOVAL_SECONDS):
            _logger.warning("a control group that was made for a worker is still in use, and stays")
    except Exception as error:  # there is no caller to raise it to
        _logger.warning("a control group that was made for a worker cannot be removed: %s", error)
