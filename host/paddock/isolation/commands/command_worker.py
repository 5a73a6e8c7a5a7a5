"""One worker that commands are run in, one after the other, by a thread that asks for it.

Begun and ended on the host's loop. However it ends, by its limits too, everything that ran in it ends with it, and
whoever waits is told why.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.from_thread
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.errors import Denial, LaunchError
from paddock.isolation.commands.command_channel import CommandChannel, CommandSpec, WorkerGoneError
from paddock.isolation.commands.command_means import CommandMeans
from paddock.isolation.commands.command_profile import MEMORY_MAX, SCRATCH, TASKS_MAX, command_environ, command_profile
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.networked_launcher import NetworkedLauncher
from paddock.isolation.worker_network import WorkerNetwork
from paddock.plan.host_name import parse_authority
from paddock.plan.net_rule import DEFAULT_PORT, NetRule
from paddock.plan.problems import NotAcceptedError
from paddock.plan.units import size_text
from paddock.workers.exit_report import ExitReason, LimitHit
from paddock.workers.exit_status import ExitStatus
from paddock.workers.limits.tree_limits import LimitedTree, TreeLimits
from paddock.workers.process import ModuleProcess
from paddock.workers.scratch import remove_private_folder
from paddock_sandbox.profile import IsolationLevel
from paddock_sources.commands.command_output import CommandOutput
from paddock_sources.commands.command_runner import MAX_STDOUT_BYTES, CommandAccess, CommandError, CommandResult

if TYPE_CHECKING:
    from paddock.egress.gate import EgressGate


_END_SECONDS: Final = 10.0  # for one worker to end
_MAX_REFUSED: Final = 100
_MAX_TARGET_CHARACTERS: Final = 300


def check_cancelled() -> None:
    """Raise once the task is cancelled that had this thread started; in other threads nothing ever is."""
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        pass


class CommandWorker:
    """One worker, and the commands that are run in it; see `CommandSession`."""

    def __init__(self, access: CommandAccess, level: IsolationLevel) -> None:
        self.on_end: Callable[[CommandWorker], None] = lambda session: None
        self.ended_for = ""
        self._access = access
        self._level = level
        self._loop = asyncio.get_running_loop()
        self._using = threading.Lock()
        self._refused: dict[str, None] = {}
        self._process: ModuleProcess | None = None
        self._channel: CommandChannel | None = None
        self._gate: EgressGate | None = None
        self._tree_limits: LimitedTree | None = None
        self._folder: Path | None = None
        self._memory_kills = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    def level(self) -> str:
        """How its commands are shut in."""
        return self._level

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        on_stdout: Callable[[memoryview], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        timeout: float = 60.0,
        max_stdout_bytes: int = MAX_STDOUT_BYTES,
    ) -> CommandResult:
        """Run a command to its end; see `CommandSession.run`."""
        with self._using:
            if self._channel is None:
                raise CommandError(self._access.name, "what it was to run in has ended")
            output = CommandOutput(self._access.name, on_stdout, on_stderr, max_stdout_bytes)
            channel = self._channel
            try:
                result = channel.run(argv, stdin, output, timeout, check_cancelled)
            except WorkerGoneError as gone:
                self._lose()
                reason = self.ended_for or f"what it ran in was lost: {gone}"
                raise CommandError(self._access.name, f"it was ended: {reason}") from gone
            except BaseException:
                if channel.is_lost:
                    self._lose()
                raise
            self._look_at_memory(result.code)
            return replace(result, refused=tuple(self._refused))

    def end_from_thread(self) -> None:
        """Have the worker ended with all that runs in it, and wait until it has.

        Raises:
            CommandError: that takes too long: something may still write where it was allowed to.
        """
        ending = self.end()
        try:
            future = asyncio.run_coroutine_threadsafe(ending, self._loop)
        except RuntimeError:
            ending.close()  # the host has ended, and saw to it itself
            return
        try:
            future.result(_END_SECONDS)
        except (TimeoutError, CancelledError):
            problem = "what it ran in does not end, and may still change what it was let write to"
            raise CommandError(self._access.name, problem) from None

    def _lose(self) -> None:
        """Run nothing any more; whoever waited is told why, and not how the worker's end went."""
        self._channel = None
        with suppress(CommandError):
            self.end_from_thread()

    def _look_at_memory(self, code: int) -> None:
        """Tell of a command of which the kernel killed a part because there is only so much memory.

        Raises:
            CommandError: it was.
        """
        if code == 0 or self._process is None or self._process.cgroup is None:
            return
        try:
            kills = self._process.cgroup.readings().memory_kills or 0
        except OSError:
            return
        if kills > self._memory_kills:
            self._memory_kills = kills
            raise CommandError(self._access.name, f"it needed more than {size_text(MEMORY_MAX)} of memory")

    def _note(self, denial: Denial) -> None:
        """Remember a host that was refused; of a name that was only looked up, no port is known."""
        if len(self._refused) < _MAX_REFUSED:
            self._refused[denial.target[:_MAX_TARGET_CHARACTERS]] = None

    def close(self) -> None:
        """Let go of the stream, in the thread that uses it."""
        with self._using:
            self._channel = None
            if self._process is not None:
                self._process.rpc.close()

    # -- on the loop -----------------------------------------------------------------------------

    async def begin(self, means: CommandMeans, folder: Path, audit: AuditLog) -> None:
        """Have the worker started.

        Raises:
            CommandError: it cannot be.
        """
        name = self._access.name
        try:
            network = self._open_network(folder, audit)
            scratch = self._make_scratch(folder)
            profile = command_profile(self._access, self._level, means.paths, scratch, network)
            launcher = means.launcher_of(self._level)
            spec = CommandSpec(
                name=name,
                working_dir=scratch,
                environ=command_environ(self._access, scratch, network),
                runtime=means.runtime,
                profile=profile,
                tree_limits=TreeLimits(
                    MEMORY_MAX,
                    TASKS_MAX,
                    watches_tasks=self._level not in LEVELS_WITH_NAMESPACES,
                    private_folder=profile.scratch if self._level in LEVELS_WITH_NAMESPACES else "",
                ),
            )
            if self._gate is not None:
                launcher = NetworkedLauncher(launcher, self._gate)
            self._process = await launcher.launch(spec)
            self._tree_limits = means.limit_enforcer.begin(self._process, spec.tree_limits, self._overrun)
        except LaunchError as error:
            problem = f"what it is to run in could not be made: {error.step}: {error.message}"
            raise CommandError(name, problem, hints=error.hints) from error
        except NotAcceptedError as error:
            raise CommandError(name, error.problem, hints=[error.accepted] if error.accepted else []) from error
        except OSError as error:
            raise CommandError(name, f"what it is to run in could not be made: {error}") from error
        self._process.on_exit(self._on_exit)
        self._channel = CommandChannel(name, self._process.rpc)

    async def end(self) -> None:
        """End the worker with all that runs in it, and take away what was made for it; several may ask."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        try:
            if self._process is not None:
                await self._process.stop(0)
        finally:
            try:
                if self._gate is not None:
                    await self._gate.aclose()
            finally:
                if self._folder is not None:
                    await anyio.to_thread.run_sync(remove_private_folder, self._folder)
                self.on_end(self)

    def _on_exit(self, status: ExitStatus) -> None:
        tree_limits, self._tree_limits = self._tree_limits, None
        overrun = None if tree_limits is None else tree_limits.end(status)
        if overrun is not None:
            self._overrun(*overrun)

    def _overrun(self, reason: ExitReason, hit: LimitHit) -> None:
        if not self.ended_for:
            self.ended_for = f"it used more than it may: {hit.name} is {hit.configured}"
        if self._process is not None:
            self._process.kill()

    def _open_network(self, folder: Path, audit: AuditLog) -> WorkerNetwork | None:
        if not self._access.hosts or self._level == "none":
            return None
        from paddock.egress.gate import EgressGate
        from paddock.egress.rules import NetRules

        granted = [NetRule.of(parse_authority(host, DEFAULT_PORT)) for host in self._access.hosts]
        rules = NetRules(granted, names_lead_inside=self._access.is_users_word)
        self._gate = EgressGate(self._access.name, rules, audit=audit, on_denial=self._note)
        ports = self._gate.ports if self._level in LEVELS_WITH_NAMESPACES else (self._gate.listen(),)
        return WorkerNetwork.lay_out(self._own(folder) / "network", self._level, ports, self._gate.proxy_url)

    def _make_scratch(self, folder: Path) -> Path:
        if (inside := SCRATCH.get(self._level)) is not None:
            return Path(inside)
        home = self._own(folder) / "home"
        home.mkdir(mode=0o700)
        return home

    def _own(self, folder: Path) -> Path:
        if self._folder is None:
            folder.mkdir(mode=0o755)
            self._folder = folder
        return folder
