"""Run git and the installers of packages shut in as modules are: with the files and hosts they need, and no others.

One worker for a session of commands, at the strongest isolation level that this machine has; all that its commands
connect to goes through a gate of the host's. What is called in threads meets here what belongs to the host's loop:
sessions begin and end on that, commands are carried by the thread that asked for them. When the host gives this up, or
is cancelled, every worker ends with all that runs in it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.errors import Denial, LaunchError
from paddock.kernel.confinements import failure_of
from paddock.kernel.networked_launcher import NetworkedLauncher
from paddock.kernel.private_folder import make_private_folder, remove_private_folder
from paddock.plan.net_rule import NetRule
from paddock.plan.problems import NotAcceptedError
from paddock.plan.units import size_text
from paddock.policy import Machine, RuntimePaths
from paddock.policy.enforcement import LEVELS_WITH_NAMESPACES
from paddock.policy.mount_table import MountTable
from paddock.policy.programs import SEARCH_PATH, configuration_of, show_system
from paddock.policy.worker_network import WorkerNetwork
from paddock.process.bubblewrap import bubblewrap_command
from paddock.process.command_runner import CommandChannel, CommandSpec, WorkerGoneError
from paddock.process.exec import ExecLauncher
from paddock.process.exit_report import ExitReason, LimitHit
from paddock.process.exit_status import ExitStatus
from paddock.process.launcher import Launcher, LaunchSpec
from paddock.process.module_process import ModuleProcess
from paddock.process.ration import Ration, RationedProcess, Rationing
from paddock.process.reach import Reach, Unreached, find_reach
from paddock.process.runtime import WorkerRuntime
from paddock.process.template import TemplateLauncher
from paddock.process.watchdog import Watchdog
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import ANY_PROGRAM, ISOLATION_LEVELS, IsolationLevel, NetworkAccess, SandboxProfile
from paddock_sandbox.rlimits import ResourceLimit
from paddock_sources.command_output import CommandOutput
from paddock_sources.command_runner import (
    MAX_STDOUT_BYTES,
    CommandError,
    CommandReach,
    CommandSession,
    Finished,
)

if TYPE_CHECKING:
    from paddock.egress.gate import EgressGate

_SCRATCH: Final[Mapping[IsolationLevel, str]] = {"ns": "/scratch", "bwrap": "/tmp"}  # noqa: S108 - of its own root
_MEMORY_MAX: Final = 2 << 30
_SCRATCH_BYTES: Final = 512 << 20
_TASKS_MAX: Final = 256  # an installer has threads for each processor, and for each download
_OPEN_FILES_MAX: Final = 4096
_THREAD_BYTES: Final = 72 << 20  # of addresses: a stack and an arena of the allocator
_LOCKED_BYTES: Final = 64 << 10
_GLANCE_SECONDS: Final = 0.1  # between two looks at whether anybody still waits
_END_SECONDS: Final = 10.0  # for one worker to end
_MAX_REFUSED: Final = 100
_MAX_TARGET_CHARACTERS: Final = 300
_STOP_SECONDS: Final = 20.0  # for every worker to end; each is killed long before
_NEVER_SHOWN: Final = tuple(map(Path, ("/proc", "/sys", "/dev")))

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CommandMeans:
    """What workers for commands are made with; a session's own can be lent.

    `folder` is private to the host, and lasts as long as the rest. `try_levels` finds out which levels can be had.
    """

    runtime: WorkerRuntime
    paths: RuntimePaths
    folder: Path
    launcher_of: Callable[[IsolationLevel], Launcher]
    rationing: Rationing
    try_levels: Callable[[Iterable[IsolationLevel]], Awaitable[Reach]]

    @classmethod
    @asynccontextmanager
    async def of_ones_own(cls) -> AsyncIterator[Self]:
        """Have all that is needed made, and given up at the end."""
        groups = await anyio.to_thread.run_sync(_find_groups)
        async with AsyncExitStack() as stack:
            folder = make_private_folder()
            stack.push_async_callback(_remove, folder)
            covers = folder / "empty"
            covers.mkdir()
            located = WorkerRuntime.locate()
            paths = RuntimePaths.locate(located.interpreter, located.packages, covers)
            table = MountTable()
            paths.show(table, by_mounts=True)
            runtime = WorkerRuntime(located.interpreter, located.packages, table.mounts())
            template = TemplateLauncher(groups)
            bubblewrap = ExecLauncher(None, bubblewrap_command)  # in its namespaces no groups can be made
            for launcher in (template, bubblewrap):
                stack.push_async_callback(_shielded, launcher.aclose)
            watchdog = Watchdog()
            watching = asyncio.create_task(watchdog.run())
            stack.push_async_callback(_cancel, watching)

            def launcher_of(level: IsolationLevel) -> Launcher:
                return bubblewrap if level == "bwrap" else template

            trials = _Trials(runtime, paths, folder, launcher_of)
            yield cls(runtime, paths, folder, launcher_of, Rationing(watchdog), trials.try_levels)


def check_cancelled() -> None:
    """Raise once the task is cancelled that had this thread started; in other threads nothing ever is."""
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        pass


class SourceCommands:
    """A `CommandRunner` whose commands are shut in. Entered on the host's loop, and used in threads.

    Args:
        environ: the host's own environment.
        minimum: the weakest level that will do; `none` only if the operator said so.
        isolation: the one level that will do, where the operator named it.
        means: what to make workers with; by default it makes its own when the first is needed.
        audit: is told of each connection.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        minimum: IsolationLevel = "landlock",
        isolation: IsolationLevel | None = None,
        means: CommandMeans | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._environ = environ
        self._levels = (isolation,) if isolation else ISOLATION_LEVELS[: ISOLATION_LEVELS.index(minimum) + 1]
        self._lent = means
        self._audit = audit or AuditLog.silent()
        self._means: CommandMeans | None = None
        self._level: IsolationLevel | None = None
        self._numbers = count(1)
        self._sessions: set[_Session] = set()
        self._beginnings: set[asyncio.Task[Any]] = set()
        self._is_over = True

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._making = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._is_over = False
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over = True
        with anyio.CancelScope(shield=True):
            for beginning in self._beginnings:
                beginning.cancel()
            with anyio.move_on_after(_STOP_SECONDS):
                await asyncio.gather(*self._beginnings, return_exceptions=True)
                for session in self._sessions:
                    session.ended_for = session.ended_for or "its host ended"
                await asyncio.gather(*(session.end() for session in self._sessions), return_exceptions=True)
            await self._stack.aclose()

    @contextmanager
    def open(self, reach: CommandReach) -> Iterator[CommandSession]:
        """Return a place where commands can be run; see `CommandRunner.open`."""
        if threading.get_ident() == getattr(self, "_thread", None):
            raise RuntimeError("commands are run in threads, not on the host's loop")
        session = self._on_loop(reach.name, self._begin(reach), check_cancelled)
        try:
            yield session
        finally:
            try:
                if not self._is_over:  # else the host sees to it itself
                    session.end_from_thread()
            finally:
                session.close()

    def _on_loop(self, name: str, coroutine: Coroutine[Any, Any, _T], check: Callable[[], None]) -> _T:
        if self._is_over or self._loop.is_closed():
            coroutine.close()
            raise CommandError(name, "it cannot be run: its host is ending")
        future: Future[_T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            while True:
                check()
                try:
                    return future.result(_GLANCE_SECONDS)
                except TimeoutError:
                    if future.done():
                        raise
                    if self._loop.is_closed():
                        raise CommandError(name, "it cannot be run: its host has ended") from None
        except CancelledError:
            raise CommandError(name, "it was ended with its host") from None
        except BaseException:
            future.cancel()
            raise

    async def _begin(self, reach: CommandReach) -> _Session:
        if self._is_over:
            raise CommandError(reach.name, "it cannot be run: its host is ending")
        task = asyncio.current_task()
        assert task is not None
        self._beginnings.add(task)
        try:
            means = await self._get_means()
            level = await self._find_level(reach.name, means)
            session = _Session(reach, level)
            self._sessions.add(session)
            session.on_end = self._sessions.discard
            try:
                await session.begin(means, means.folder / f"commands-{next(self._numbers)}", self._audit)
            except BaseException:
                await session.end()
                session.close()
                raise
            return session
        finally:
            self._beginnings.discard(task)

    async def _get_means(self) -> CommandMeans:
        async with self._making:
            if self._means is None:
                self._means = self._lent
            if self._means is None:
                self._means = await self._stack.enter_async_context(CommandMeans.of_ones_own())
            return self._means

    async def _find_level(self, name: str, means: CommandMeans) -> IsolationLevel:
        """Return the strongest level that can be had.

        Raises:
            CommandError: none that would do can be had; it says why not.
        """
        async with self._making:
            failures = []
            for level in self._levels if self._level is None else ():
                found = None if level == "none" else (await means.try_levels([level])).findings[level]
                if isinstance(found, Unreached):
                    failures.append((level, failure_of(found, Machine.look(self._environ))))
                    continue
                self._level = level
                break
        if self._level is not None:
            return self._level
        told = "; ".join(f"{level}: {failure.describe()}" for level, failure in failures)
        hints = dict.fromkeys(failure.fix for _, failure in failures if failure.fix)
        raise CommandError(
            name,
            f"it handles what strangers wrote, and cannot be shut in on this machine: {told}",
            hints=[*hints, "`paddock doctor` says what is missing, and what would help"],
        )


class _Session:
    """One worker, and the commands that are run in it; see `CommandSession`."""

    def __init__(self, reach: CommandReach, level: IsolationLevel) -> None:
        self.on_end: Callable[[_Session], None] = lambda session: None
        self.ended_for = ""
        self._reach = reach
        self._level = level
        self._loop = asyncio.get_running_loop()
        self._using = threading.Lock()
        self._refused: dict[str, None] = {}
        self._process: ModuleProcess | None = None
        self._channel: CommandChannel | None = None
        self._gate: EgressGate | None = None
        self._ration: RationedProcess | None = None
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
    ) -> Finished:
        """Run a command to its end; see `CommandSession.run`."""
        with self._using:
            if self._channel is None:
                raise CommandError(self._reach.name, "what it was to run in has ended")
            output = CommandOutput(self._reach.name, on_stdout, on_stderr, max_stdout_bytes)
            channel = self._channel
            try:
                finished = channel.run(argv, stdin, output, timeout, check_cancelled)
            except WorkerGoneError as gone:
                self.end_from_thread()
                reason = self.ended_for or f"what it ran in was lost: {gone}"
                raise CommandError(self._reach.name, f"it was ended: {reason}") from gone
            finally:
                if channel.is_lost:
                    self._channel = None
                    self.end_from_thread()
            self._look_at_memory(finished.code)
            return replace(finished, refused=tuple(self._refused))

    def end_from_thread(self) -> None:
        """Have the worker ended with all that runs in it, and wait until it has."""
        ending = self.end()
        try:
            future = asyncio.run_coroutine_threadsafe(ending, self._loop)
        except RuntimeError:
            ending.close()  # the host has ended, and saw to it itself
            return
        with suppress(TimeoutError, CancelledError):
            future.result(_END_SECONDS)

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
            raise CommandError(self._reach.name, f"it needed more than {size_text(_MEMORY_MAX)} of memory")

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
        name = self._reach.name
        try:
            network = self._open_network(folder, audit)
            scratch = self._make_scratch(folder)
            profile = _profile(self._reach, self._level, means.paths, scratch, network)
            launcher = means.launcher_of(self._level)
            spec = CommandSpec(
                name=name,
                working_dir=scratch,
                environ=_environ(self._reach, scratch, network),
                runtime=means.runtime,
                profile=profile,
                ration=Ration(_MEMORY_MAX, _TASKS_MAX, None, watches_tasks=self._level not in LEVELS_WITH_NAMESPACES),
            )
            if self._gate is not None:
                launcher = NetworkedLauncher(launcher, self._gate)
            self._process = await launcher.launch(spec)
            self._ration = means.rationing.begin(self._process, spec.ration, self._overrun)
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
        ration, self._ration = self._ration, None
        overrun = None if ration is None else ration.end(status)
        if overrun is not None:
            self._overrun(*overrun)

    def _overrun(self, reason: ExitReason, hit: LimitHit) -> None:
        if not self.ended_for:
            self.ended_for = f"it used more than it may: {hit.name} is {hit.configured}"
        if self._process is not None:
            self._process.kill()

    def _open_network(self, folder: Path, audit: AuditLog) -> WorkerNetwork | None:
        if not self._reach.hosts or self._level == "none":
            return None
        from paddock.egress.gate import EgressGate
        from paddock.egress.rules import NetRules

        rules = NetRules([NetRule.parse(host) for host in self._reach.hosts])
        self._gate = EgressGate(self._reach.name, rules, audit=audit)
        self._gate.on_denial = self._note
        ports = self._gate.ports if self._level in LEVELS_WITH_NAMESPACES else (self._gate.listen(),)
        return WorkerNetwork.lay_out(self._own(folder) / "network", self._level, ports, self._gate.proxy_url)

    def _make_scratch(self, folder: Path) -> Path:
        if (inside := _SCRATCH.get(self._level)) is not None:
            return Path(inside)
        home = self._own(folder) / "home"
        home.mkdir(mode=0o700)
        return home

    def _own(self, folder: Path) -> Path:
        if self._folder is None:
            folder.mkdir(mode=0o755)
            self._folder = folder
        return folder


def _environ(reach: CommandReach, scratch: Path, network: WorkerNetwork | None) -> dict[str, str]:
    """Return the whole environment of commands; which certificates they trust is theirs to say, little else of ours."""
    home = os.fspath(scratch)
    ours = {"PATH": ":".join(SEARCH_PATH), "HOME": home}
    there = {} if network is None else dict(network.environ)
    proxies = {name: value for name, value in there.items() if name.lower().endswith("_proxy")}
    if proxies:
        proxies["GIT_HTTP_PROXY_AUTHMETHOD"] = "basic"  # else it asks first without what it has been told, in vain
    return {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TMPDIR": home, **there, **reach.environ, **proxies, **ours}


def _profile(
    reach: CommandReach, level: IsolationLevel, paths: RuntimePaths, scratch: Path, network: WorkerNetwork | None
) -> SandboxProfile:
    """Return what commands are shut into.

    Raises:
        NotAcceptedError: a path cannot be shown.
    """
    if level == "none":
        return SandboxProfile(level, scratch=str(scratch))
    by_mounts = level in LEVELS_WITH_NAMESPACES
    reads, writes = ([(path, _real(path)) for path in given] for given in (reach.reads, reach.writes))
    table = MountTable()
    show_system(table, None)
    if not by_mounts:
        for path in configuration_of(None):
            table.grant(path)
    paths.show(table, by_mounts=by_mounts, seen=[Path("/usr"), *(real for _, real in (*reads, *writes))])
    for _, real in reads:
        table.grant(real, mappable=True)
    for _, real in writes:
        table.grant(real, writable=True, mappable=True)
    for source, target in network.files if network is not None else ():
        table.fix(source, target)
    if by_mounts:
        for spelled, real in sorted((*reads, *writes), key=lambda pair: pair[0].parts):
            if not table.is_seen(spelled):
                table.alias(real, spelled)
    mounts = table.mounts()
    return SandboxProfile(
        level,
        # Without mounts a place has the one name that it has for everybody.
        mounts if by_mounts else tuple(dict.fromkeys(replace(mount, target=mount.source) for mount in mounts)),
        programs=(ANY_PROGRAM,),
        rlimits=tuple(_rlimits(reach, by_mounts=by_mounts)),
        scratch=str(scratch),
        tmp_bytes=_SCRATCH_BYTES,
        network=None if network is None else NetworkAccess(network.ports),
    )


def _rlimits(reach: CommandReach, *, by_mounts: bool) -> Iterator[ResourceLimit]:
    yield ResourceLimit("NOFILE", _OPEN_FILES_MAX)
    yield ResourceLimit("FSIZE", reach.written_bytes)
    # Far more addresses than memory: programs map whole files, and reserve what they never touch.
    yield ResourceLimit("AS", 4 * _MEMORY_MAX + (1 << 30) + _TASKS_MAX * _THREAD_BYTES)
    yield ResourceLimit("MEMLOCK", _LOCKED_BYTES)
    yield ResourceLimit("MSGQUEUE", 0)
    if by_mounts:
        yield ResourceLimit("NPROC", _TASKS_MAX)


def _real(path: Path) -> Path:
    """Follow a path to what it really is.

    Raises:
        NotAcceptedError: nothing is there, or what is never shown.
    """
    if not path.is_absolute():
        raise NotAcceptedError(f"`{path}` is no absolute path", "")
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise NotAcceptedError(f"`{path}` cannot be reached: {getattr(error, 'strerror', None) or error}", "") from None
    if real == Path("/") or any(real.is_relative_to(folder) for folder in _NEVER_SHOWN):
        raise NotAcceptedError(f"`{path}` is never shown to what is shut in", "name the folder that is needed")
    return real


class _Trials:
    """Finds out which levels can be had, each once."""

    def __init__(
        self,
        runtime: WorkerRuntime,
        paths: RuntimePaths,
        folder: Path,
        launcher_of: Callable[[IsolationLevel], Launcher],
    ) -> None:
        self._runtime = runtime
        self._paths = paths
        self._folder = folder
        self._launcher_of = launcher_of
        self._reach = Reach()

    async def try_levels(self, levels: Iterable[IsolationLevel]) -> Reach:
        """Try those of the levels that were not tried yet, by starting a worker that is granted nothing."""
        wanted = [level for level in levels if level not in self._reach.findings]
        found = await find_reach(wanted, self._launcher_of, self._trial)
        self._reach = Reach({**self._reach.findings, **found.findings})
        return self._reach

    def _trial(self, level: IsolationLevel) -> LaunchSpec:
        mounts = self._runtime.mounts
        inside = _SCRATCH.get(level)
        scratch = Path(inside) if inside else self._folder / "trial"
        if not inside:
            scratch.mkdir(mode=0o700, exist_ok=True)
        if level not in LEVELS_WITH_NAMESPACES:
            table = MountTable()
            self._paths.show(table, by_mounts=False)
            mounts = table.mounts()
        profile = SandboxProfile(level, mounts, scratch=str(scratch))
        return LaunchSpec("trial", scratch, {"HOME": os.fspath(scratch)}, self._runtime, profile)


@cache
def _find_groups() -> CgroupHome:
    """Find out, once for this process, where control groups can be made, and tidy up there after hosts that died."""
    home = CgroupHome.find()
    home.remove_stale()
    return home


async def _remove(folder: Path) -> None:
    await _shielded(lambda: anyio.to_thread.run_sync(remove_private_folder, folder))


async def _shielded(act: Callable[[], Awaitable[None]]) -> None:
    with anyio.CancelScope(shield=True):
        await act()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
