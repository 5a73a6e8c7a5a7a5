"""One worker for commands, which run in it one after the other, each carried by the thread that asks for it.

It is started and supervised as a module's worker is, on the host's loop. However it ends, also by its limits,
everything that ran in it ends with it, and its callers get the reason.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final, Self

import anyio
import anyio.from_thread
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.errors import Denial, LaunchError
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.commands.command_channel import CommandChannel, WorkerGoneError
from paddock.isolation.compile import compile_profile, tree_limits_of
from paddock.isolation.network import NetworkedLauncher, WorkerNetwork
from paddock.isolation.sandbox_host import SandboxHost
from paddock.plan.host_name import parse_authority
from paddock.plan.net_rule import DEFAULT_PORT, NetRule
from paddock.plan.problems import NotAcceptedError
from paddock.plan.units import size_text
from paddock.policy.grants import Grants
from paddock.policy.limits import ResourceLimits
from paddock.policy.path_walk import KERNEL_FOLDERS, GrantedPath, real_path
from paddock.policy.programs import SEARCH_PATH
from paddock.workers.launcher import SELF_CHECK, LaunchSpec
from paddock.workers.probe import Available, Unavailable
from paddock.workers.process import ModuleProcess
from paddock.workers.scratch import remove_private_folder
from paddock.workers.supervisor import Supervisor
from paddock.workers.worker_host import close_within_bound
from paddock_sandbox.profile import IsolationLevel
from paddock_sources.commands.command_runner import Command, CommandAccess, CommandError, CommandSession

MEMORY_MAX: Final = 2 << 30

_ENTRY: Final = "paddock_sdk.worker.commands:serve"
_TASKS_MAX: Final = 254  # uv has threads for each processor, and for each download
_OPEN_FILES_MAX: Final = 4096
_SCRATCH_BYTES: Final = 512 << 20
_END_SECONDS: Final = 10.0  # for one worker to end
_MAX_REFUSED: Final = 100
_MAX_TARGET_CHARACTERS: Final = 300


class CommandWorker(CommandSession):
    """One worker, and the commands that run in it; see `CommandSession`."""

    def __init__(
        self,
        access: CommandAccess,
        level: IsolationLevel,
        supervisor: Supervisor,
        process: ModuleProcess,
        refused: dict[str, None],
        steps: AsyncExitStack,
    ) -> None:
        """`steps` end it, and release what was made for it."""
        super().__init__(access.name, level)
        self.refused = refused
        self._supervisor = supervisor
        self._process = process
        self._steps = steps
        self._channel: CommandChannel | None = CommandChannel(access.name, process.rpc)
        self._loop = asyncio.get_running_loop()
        self._using = threading.Lock()
        self._ended_for = ""
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def started(
        cls,
        access: CommandAccess,
        level: IsolationLevel,
        host: SandboxHost,
        audit: AuditLog | None,
        *,
        is_trial: bool = False,
    ) -> Self:
        """Start a worker. With `is_trial`, its start also shows whether the level works, which the host records.

        Raises:
            CommandError: it cannot be.
        """
        try:
            async with AsyncExitStack() as steps:
                folder = Path(tempfile.mkdtemp(prefix="commands-", dir=host.workers.folder))
                steps.push_async_callback(anyio.to_thread.run_sync, remove_private_folder, folder)
                refused: dict[str, None] = {}
                supervisor = _supervisor(access, level, host, audit, folder, refused, steps, is_trial=is_trial)
                process = await supervisor.start()
                steps.push_async_callback(supervisor.stop)
                if is_trial:
                    host.record_trial(Available.of_process(level, process))
                return cls(access, level, supervisor, process, refused, steps.pop_all())
        except LaunchError as error:
            if is_trial and error.step == SELF_CHECK:  # the level let it out, which no need of this worker explains
                host.record_trial(Unavailable.of_error(level, error))
            problem = f"what it is to run in could not be made: {error.step}: {error.message}"
            raise CommandError(access.name, problem, hints=error.hints) from error
        except NotAcceptedError as error:
            raise CommandError(access.name, error.problem, hints=[error.accepted] if error.accepted else []) from error
        except OSError as error:
            raise CommandError(access.name, f"what it is to run in could not be made: {error}") from error

    def seen_as(self, path: Path) -> Path:
        """Return the path within the worker's own tree of files, where it has one; see `CommandSession.seen_as`."""
        return Path(f"/proc/{self._process.pid}/root{path}") if self.level in ("ns", "bwrap") else path

    def carry(self, command: Command) -> int:
        """Run a command to its end; see `CommandSession.carry`."""
        with self._using:
            if self._channel is None:
                raise CommandError(self._name, "what it was to run in has ended")
            channel = self._channel
            try:
                code = channel.run(command, check_cancelled)
            except WorkerGoneError as gone:
                self._lose()
                reason = self._ended_for or f"what it ran in was lost: {gone}"
                for report in self._supervisor.reports:
                    if report.limit is not None and not self._ended_for:
                        reason = f"it used more than it may: {report.limit.name} is {report.limit.configured}"
                raise CommandError(self._name, f"it was ended: {reason}") from gone
            except BaseException:
                if channel.is_lost:
                    self._lose()
                raise
            if code != 0 and "memory_max" in self._supervisor.limits_met():
                raise CommandError(self._name, f"it needed more than {size_text(MEMORY_MAX)} of memory")
            return code

    def end_from_thread(self) -> None:
        """End the worker with all that runs in it, and wait for that.

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
            raise CommandError(self._name, problem) from None

    def close(self) -> None:
        """Release the stream, in the thread that uses it."""
        with self._using:
            self._channel = None
            self._process.rpc.close()

    async def end(self, reason: str = "") -> None:
        """End the worker with all that runs in it, and remove what was made for it; on the loop, by any number of
        callers.
        """
        self._ended_for = self._ended_for or reason
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._steps.aclose())
        await asyncio.shield(self._ending)

    def _lose(self) -> None:
        """Run no more commands; callers get this reason, instead of how the worker's end went."""
        self._channel = None
        with suppress(CommandError):
            self.end_from_thread()


def _supervisor(
    access: CommandAccess,
    level: IsolationLevel,
    host: SandboxHost,
    audit: AuditLog | None,
    folder: Path,
    refused: dict[str, None],
    steps: AsyncExitStack,
    *,
    is_trial: bool,
) -> Supervisor:
    """Return the supervisor of the worker; `steps` close a gate that was opened for it.

    `refused` gets the hosts that commands try to reach in vain; a name that was only looked up has no known port.

    Raises:
        NotAcceptedError: a path cannot be shown.
        OSError: its folder cannot be made, or no port is free for it.
    """

    def note(denial: Denial) -> None:
        if denial.layer != "destination" and len(refused) < _MAX_REFUSED:
            refused[denial.target[:_MAX_TARGET_CHARACTERS]] = None

    launcher, network = host.workers.launcher_at(level), None
    if access.hosts and level != "none":
        from paddock.egress.gate import EgressGate
        from paddock.egress.rules import NetRules

        granted = [NetRule.of(parse_authority(name, DEFAULT_PORT)) for name in access.hosts]
        rules = NetRules(granted, names_lead_inside=access.is_users_word)
        gate = EgressGate(access.name, rules, audit=audit or AuditLog.silent(), on_denial=note)
        steps.push_async_callback(close_within_bound, gate.aclose)
        network = WorkerNetwork.through(gate, folder / "network", level)
        launcher = NetworkedLauncher(launcher, gate)
    scratch = host.scratch(level, folder)
    limits = ResourceLimits(
        memory_max=MEMORY_MAX,
        tasks_max=_TASKS_MAX,
        open_files_max=_OPEN_FILES_MAX,
        file_size_max=access.written_bytes,
        tmp_max=_SCRATCH_BYTES,
    )
    reads, writes = (tuple(map(_granted, paths)) for paths in (access.reads, access.writes))
    profile = compile_profile(
        level,
        Grants(reads, writes, programs=None),
        host.paths,
        limits,
        scratch,
        network,
    )
    spec = LaunchSpec(
        name=access.name,
        working_dir=scratch,
        environ=_environ(access, scratch, network),
        runtime=host.runtime,
        entry=_ENTRY,
        profile=profile,
        tree_limits=tree_limits_of(profile, limits, cpu_quota=None),
        tries_to_hold=is_trial,
    )
    return Supervisor(launcher, spec, limit_enforcer=host.workers.limit_enforcer, terminate_seconds=0)


def _environ(access: CommandAccess, scratch: Path, network: WorkerNetwork | None) -> dict[str, str]:
    """Return the whole environment of commands: the certificates that they trust, and little else of the host's."""
    home = os.fspath(scratch)
    ours = {"PATH": ":".join(SEARCH_PATH), "HOME": home}
    there = {} if network is None else dict(network.environ)
    proxies = {name: value for name, value in there.items() if name.lower().endswith("_proxy")}
    if proxies:
        proxies["GIT_HTTP_PROXY_AUTHMETHOD"] = "basic"  # else git first asks without the credentials, in vain
    return {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TMPDIR": home, **there, **access.environ, **proxies, **ours}


def _granted(path: Path) -> GrantedPath:
    """Follow a path to its target.

    Raises:
        NotAcceptedError: nothing is there, or what is never shown.
    """
    if not path.is_absolute():
        raise NotAcceptedError(f"`{path}` is no absolute path", "")
    try:
        real = real_path(path)
    except (OSError, ValueError) as error:
        raise NotAcceptedError(f"`{path}` cannot be reached: {getattr(error, 'strerror', None) or error}", "") from None
    if real == Path("/") or any(real.is_relative_to(folder) for folder in KERNEL_FOLDERS):
        raise NotAcceptedError(f"`{path}` is never shown to a sandboxed command", "name the folder that is needed")
    return GrantedPath(str(path), path, real, (), real.is_dir())
