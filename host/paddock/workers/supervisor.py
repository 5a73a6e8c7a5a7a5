"""Supervise one module's process over all its lives.

It starts the process on demand, after the pause that earlier deaths cause. It records the reason before it ends the
process, and makes an exit report of every end. `stop` is final: it never raises by itself, never leaves a process
behind, and every wait in it is bounded and shielded. It has no task of its own, and does not know the protocol with the
module.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from errno import EBUSY
from functools import partial
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel

from paddock.errors import LaunchError, QuarantinedError, RevokedError
from paddock.plan.limits import Limits
from paddock.time_limit import while_running
from paddock.workers.exit_report import ExitReason, ExitReport, ExitStatus, LimitHit
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.limits.totals import room_in
from paddock.workers.limits.tree_limits import LimitedTree, LimitEnforcer
from paddock.workers.limits.watchdog import Clock
from paddock.workers.output import OutputRing
from paddock.workers.process import ModuleProcess
from paddock.workers.restart import RestartPolicy, RestartState

_logger = logging.getLogger(__name__)

_GOODBYE_SECONDS = 2.0  # to answer a goodbye and exit: cleanups of well-behaved modules
_TERMINATE_SECONDS = 1.0  # for handlers of SIGTERM, after the goodbye did not help
_HANG_UP_SECONDS = 5.0  # from a closed socket to the end of the whole tree; some 50 ms on an idle machine
REVOKED = "what it was granted was taken back"
_STDERR_LINES = 20
_STDERR_LINE_CHARACTERS = 500


class Supervisor:
    """Keeps at most one process of a module alive.

    `reports` are the ends so far, oldest first. The code that speaks with the process keeps `call_in_flight`; its value
    when the process ends goes into the report.
    """

    def __init__(
        self,
        launcher: Launcher,
        spec: LaunchSpec,
        policy: RestartPolicy | None = None,
        *,
        limit_enforcer: LimitEnforcer | None = None,
        clock: Clock | None = None,
        goodbye_seconds: float = _GOODBYE_SECONDS,
        terminate_seconds: float = _TERMINATE_SECONDS,
        written: Limits | None = None,
    ) -> None:
        self.spec = spec
        self._written = written
        self.reports: list[ExitReport] = []
        self.call_in_flight: str | None = None
        self._launcher = launcher
        self._policy = policy or RestartPolicy()
        self._limit_enforcer = limit_enforcer
        self._limited_tree: LimitedTree | None = None
        self._clock = clock or Clock()
        self._goodbye_seconds = goodbye_seconds
        self._terminate_seconds = terminate_seconds
        self._state = RestartState()
        self._process: ModuleProcess | None = None
        self._starts = 0
        self._starting = anyio.Lock()
        self._start_scope: anyio.CancelScope | None = None
        self._stopping = False
        self._is_revoked = False
        self.lifts = "`Session.lift_quarantine`, or `/lift` in a chat"  # a quarantine, for people
        self._recorded: tuple[ExitReason, LimitHit | None, str] | None = None
        self._is_presumed = False  # whether that is only taken from a closed socket
        self._exit_callbacks: list[Callable[[ExitReport], None]] = []
        self._report_of: WeakKeyDictionary[ModuleProcess, ExitReport] = WeakKeyDictionary()
        self._printed_bytes = 0
        self._latest_output: OutputRing | None = None
        self.cpu_seconds = 0.0  # of all lives that have ended
        self.peak_memory_bytes: int | None = None  # the highest of them
        self.opened_paths: dict[str, set[int]] = {}  # of granted ones by family, by their places, as the module says

    def note_call(self, method: str) -> None:
        """Note the call in which the process is about to be ended."""
        self.call_in_flight = method

    @property
    def process(self) -> ModuleProcess | None:
        """The living process, if there is one."""
        return self._process

    @property
    def restarts(self) -> int:
        """How often the module was started again after its first start."""
        return max(0, self._starts - 1)

    @property
    def printed_bytes(self) -> int:
        """How much the module has printed over all its lives, whether kept or not."""
        return self._printed_bytes + (0 if self._process is None else self._process.output.total_bytes)

    @property
    def kept_bytes(self) -> int:
        """How many bytes of the current or latest process's output are, or at its end were, kept."""
        return 0 if self.output is None else self.output.kept_bytes

    @property
    def output(self) -> OutputRing | None:
        """What the living process has printed, or else the latest one; None before the first."""
        return self._latest_output if self._process is None else self._process.output

    @property
    def is_revoked(self) -> bool:
        """Whether what it was granted was taken back, so that it starts no more."""
        return self._is_revoked

    @property
    def is_starting(self) -> bool:
        """Whether a process is being started, or waited for."""
        return self._starting.locked()

    @property
    def limited_tree(self) -> LimitedTree | None:
        """The living process's tree with its limits."""
        return self._limited_tree

    @property
    def quarantined(self) -> bool:
        """True once the module ended too often to be started again."""
        return self._state.quarantined

    def quarantine(self) -> None:
        """Start nothing, because the module ended too often under an earlier host."""
        self._state = RestartState(quarantined=True)

    def lift_quarantine(self) -> None:
        """Forget the deaths so far: the module is started again when it is next called."""
        self._state = RestartState()

    def revoke(self) -> None:
        """Kill the process, if there is one, also one that is being launched; start none again."""
        self._is_revoked = True
        self.end(ExitReason.KILLED_BY_HOST, detail=REVOKED)

    def limits_met(self) -> tuple[str, ...]:
        """Return the limits that the living process's tree met, and went on; see `LimitedTree.met`."""
        return () if self._limited_tree is None else self._limited_tree.met()

    def on_exit(self, callback: Callable[[ExitReport], None]) -> None:
        """Call back on the loop with the report of every end; the callback must not raise."""
        self._exit_callbacks.append(callback)

    async def start(self) -> ModuleProcess:
        """Return the living process, or start one, after the pause that earlier deaths cause.

        Raises:
            LaunchError: it could not be started, which counts as a death; or the supervisor was stopped.
            QuarantinedError: it ended too often to be tried again.
            RevokedError: what it was granted was taken back.
        """
        async with self._starting:
            self._check_not_revoked()
            if self._process is not None:
                if self._recorded is None:
                    return self._process
                await self._process.stop(0)
            if not self._stopping:
                with anyio.CancelScope() as self._start_scope:
                    return await self._start()
            raise LaunchError(self.spec.name, "start", "its supervisor was stopped")

    def end(self, reason: ExitReason, limit: LimitHit | None = None, *, detail: str = "") -> None:
        """Record the reason, then kill the process, if there is one. The first of several reasons counts."""
        if self._process is not None:
            if self._recorded is None:
                self._recorded = (reason, limit, detail)
            self._process.kill()

    async def report(self, process: ModuleProcess, within: float = _HANG_UP_SECONDS) -> ExitReport:
        """Return the report on a process of this module whose socket has closed.

        A process closes its socket last. One that lives on for longer than `within` seconds is ended, and broke the
        protocol, unless the kernel turns out to have killed it: what it held may take that long to free. While the
        module is being stopped, `stop` ends it, after the time that a goodbye has.
        """
        with while_running(anyio.move_on_after(within)):
            await process.wait()
        if self._stopping:
            await process.wait()
        elif process is self._process:
            self._is_presumed = self._recorded is None
            self.end(ExitReason.PROTOCOL)
            await process.stop(0)
        if process not in self._report_of:  # it ended before the request: the next turn reports it
            await anyio.lowlevel.checkpoint()
        return self._report_of[process]

    async def stop(self, goodbye: Callable[[], Awaitable[None]] | None = None) -> None:
        """End the process for good: a goodbye, then SIGTERM, then SIGKILL, each if the one before did not end it."""
        self._stopping = True
        if self._start_scope is not None:
            self._start_scope.cancel()
        try:
            with anyio.CancelScope(shield=True):
                async with self._starting:  # a launch just cancelled ends its process itself, in bounded time
                    process = self._process
                if process is not None:
                    await self._see_off(process, goodbye)
        except BaseException:
            # A task cancelled by asyncio's own means gets past the shield; the process does not get away.
            self.end(ExitReason.KILLED_BY_HOST)
            raise

    async def _see_off(self, process: ModuleProcess, goodbye: Callable[[], Awaitable[None]] | None) -> None:
        if goodbye is not None:
            with while_running(anyio.move_on_after(self._goodbye_seconds)):
                try:
                    await goodbye()
                except Exception:
                    _logger.warning("%s: saying goodbye failed; it is ended without", self.spec.name, exc_info=True)
                await process.wait()
        if process.status is None:
            self._recorded = self._recorded or (ExitReason.KILLED_BY_HOST, None, "")
            await process.stop(self._terminate_seconds)

    async def _start(self) -> ModuleProcess:
        while True:
            self._check_not_revoked()
            if self._state.quarantined:
                deaths = len(self._state.deaths)
                ended = f"{deaths} times within {self._policy.window:g} s"
                if not deaths:
                    ended = "too often before the session was resumed"
                report = self.reports[-1] if self.reports else None
                raise QuarantinedError(self.spec.name, ended=ended, lifts=self.lifts, report=report)
            delay = self._state.not_before - self._clock.now()
            if delay <= 0:
                break
            await self._clock.sleep(delay)
        self._starts += 1
        self._recorded = None
        self._is_presumed = False
        self.call_in_flight = None
        try:
            with room_in(self.spec.tree_limits.totals, self.spec.name):
                process = await self._launcher.launch(self.spec)
        except LaunchError as error:
            detail = f"{error.step}: {error.message}"
            self._conclude(ExitReport(self.spec.name, ExitReason.START, 0.0, detail=detail), died=True)
            raise
        # Nothing is awaited between having the process and owning it.
        self._process = process
        process.on_exit(partial(self._ended, process))
        if self._is_revoked:  # it was being launched meanwhile, and there was no process yet to end
            self.end(ExitReason.KILLED_BY_HOST, detail=REVOKED)
            process.rpc.close()
            raise RevokedError(self.spec.name)
        if self._limit_enforcer is not None:
            try:
                self._limited_tree = self._limit_enforcer.begin(process, self.spec.tree_limits, self.end)
            except OSError as error:
                self.end(ExitReason.START, detail=f"limits: {error}")
                process.rpc.close()
                hints = ["memory_max is less than its process uses already; allow it more"] * (error.errno == EBUSY)
                raise LaunchError(self.spec.name, "limits", str(error), errno=error.errno or 0, hints=hints) from error
        return process

    def _check_not_revoked(self) -> None:
        if self._is_revoked:
            raise RevokedError(self.spec.name)

    def _ended(self, process: ModuleProcess, status: ExitStatus) -> None:
        reason, limit, detail = self._recorded or (None, None, "")
        limited_tree, self._limited_tree = self._limited_tree, None
        if limited_tree is not None:
            status = replace(status, peak_memory_bytes=limited_tree.peak(status))
            overrun = limited_tree.end(status)
            if overrun is not None and (reason is None or self._is_presumed):
                reason, limit = overrun
            met = limited_tree.met(status.used)
            process.last_attempts += tuple(("limit", name) for name in met if limit is None or limit.name != name)
        left_out = process.output.left_out
        tail = (*([left_out] if left_out else []), *process.output.tail(_STDERR_LINES, "stderr"))
        report = ExitReport.of(
            self.spec.name,
            status,
            recorded=reason,
            limit=limit,
            detail=detail,
            call_in_flight=self.call_in_flight,
            stderr_tail=tuple(line[:_STDERR_LINE_CHARACTERS] for line in tail),
            written=self._written,
        )
        self.cpu_seconds += (status.user_time or 0) + (status.system_time or 0)
        if status.peak_memory_bytes is not None:
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, status.peak_memory_bytes)
        for family, places in process.opened_paths.items():
            self.opened_paths.setdefault(family, set()).update(places)
        self._printed_bytes += process.output.total_bytes
        self._latest_output = process.output
        self._process = None
        self._report_of[process] = report
        self._conclude(report, died=not self._stopping and reason is not ExitReason.KILLED_BY_HOST)

    def _conclude(self, report: ExitReport, *, died: bool) -> None:
        self.reports.append(report)
        if died:
            self._state = self._state.after_death(self._policy, self._clock.now())
        for callback in self._exit_callbacks:
            callback(report)
