"""The resources of a session and its sub-sessions: sandboxes, networks and secrets, on a host that starts processes.

Made once and released once. Leaving ends the networks and the mount guard, also after an error inside and when leaving
is cancelled; each wait is bounded. The host is its maker's, who made it before code was fetched, and ends it later. It
does not know the protocol with modules.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self
from weakref import WeakSet

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorization, AuthorizedModule
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.network import NetworkedLauncher, Networks
from paddock.isolation.operator_folders import make_operator_folders
from paddock.isolation.planner import OnConfined, SandboxedModule, SandboxPlanner, SessionPaths
from paddock.isolation.private_places import PrivatePlaces
from paddock.isolation.sandbox_host import SandboxHost
from paddock.plan.model import ModuleEntry
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.rpc.first_calls import FirstCalls
from paddock.rpc.trace import Trace
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.session.module import HostedModule
from paddock.state_folder import control_folder
from paddock.workers.capacity import own_umask
from paddock.workers.launcher import MODULE_ENTRY, LaunchSpec
from paddock.workers.limits.totals import SharedTotal
from paddock.workers.mount_guard import Replacement, SessionGuard, guarded_launcher
from paddock.workers.output import OutputLine
from paddock.workers.scratch import remove_private_folder
from paddock.workers.supervisor import Supervisor
from paddock.workers.worker_host import WorkerHost, close_within_bound
from paddock_sandbox.profile import IsolationLevel

_OF_OTHERS: Final = 0o077

OnOutput = Callable[[str, OutputLine], None]
"""Called with each line that a module prints, and with the module's name."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Where and how modules are started.

    Attributes:
        working_dir: the folder that modules work in.
        environ: the host's environment.
        isolation: the level of entries that name none; the strongest available by default.
        audit: the log of the modules' events.
        on_output: called with each line that a module prints.
        on_confined: called with the sandbox of each module, before any module is started.
        kept: files that no module may change.
        session: the id of the session.
        locks: the folder whose lock file no module may change either.
        journals: the folder of kept sessions, which no module sees.
        trace: records the calls of modules; without one, none is recorded.
        first_calls: has the modules recorded that can act outside `working_dir`.
    """

    working_dir: Path
    environ: Mapping[str, str]
    isolation: IsolationLevel | None = None
    audit: AuditLog = field(default_factory=AuditLog.silent)
    on_output: OnOutput | None = None
    on_confined: OnConfined | None = None
    kept: tuple[Path, ...] = ()
    locks: Path | None = None
    journals: Path | None = None
    trace: Trace | None = None
    session: str = ""
    first_calls: FirstCalls = field(default_factory=FirstCalls)


@dataclass(frozen=True, slots=True)
class SessionSandboxes:
    """The sandboxes of one session's modules: the sandbox `of` an entry, and the gates of their networks."""

    of: Callable[[ModuleEntry], SandboxedModule]
    networks: Networks


class SessionResources:
    """Starts processes for one session and its sub-sessions; `open` makes one."""

    def __init__(
        self,
        options: StartOptions,
        workers: WorkerHost,
        sandbox_planner: SandboxPlanner,
        networks: Networks,
        guarded: _GuardedFiles,
        mount_guard: SessionGuard,
    ) -> None:
        self.options = options
        self.workers = workers
        self.sandbox_planner = sandbox_planner
        self.secrets: SecretValues = NO_SECRETS
        self.definitions = SessionDefinitions()
        self._totals: tuple[SharedTotal, ...] = ()
        self.sandboxes = SessionSandboxes(sandbox_planner.of, networks)
        self._guarded = guarded
        self._mount_guard = mount_guard
        self._supervisors: WeakSet[Supervisor] = WeakSet()
        self._revoked: set[str] = set()
        self._listed: list[tuple[str, list[HostedModule]]] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, options: StartOptions, host: SandboxHost) -> AsyncIterator[Self]:
        """Make all parts; at the end release them, the latest first, each even if an earlier release failed.

        `host` starts the processes, and is its owner's to release.
        """
        workers = host.workers
        async with AsyncExitStack() as steps:
            networks = Networks(workers.folder, options.audit)
            sandbox_planner = SandboxPlanner(
                await anyio.to_thread.run_sync(_paths, options),
                host,
                networks,
                isolation=options.isolation,
                on_confined=options.on_confined,
            )
            guarded = _GuardedFiles(options.audit)
            mount_guard = SessionGuard(host.mount_guard, guarded.on_replaced, guarded.on_unguarded)
            steps.push_async_callback(close_within_bound, mount_guard.aclose)
            steps.push_async_callback(close_within_bound, networks.aclose)
            yield cls(options, workers, sandbox_planner, networks, guarded, mount_guard)

    @property
    def folder(self) -> Path:
        """The host's own folder for these resources."""
        return self.workers.folder

    async def plan_sandboxes(self, authorization: Authorization) -> None:
        """Decide the sandbox of each authorised module; this also settles what they are started with.

        Raises:
            PaddockError: they cannot be.
        """
        await self.sandbox_planner.plan_sandboxes(authorization)
        self._totals = self.workers.limit_enforcer.totals_watch.shared(authorization.totals)
        self.secrets = authorization.secrets

    def supervisor(
        self,
        module: AuthorizedModule,
        sandboxed: SandboxedModule,
        networks: Networks,
        *,
        on_line: Callable[[OutputLine], None] | None,
        output_per_second: int | None = None,
        worker_entry: str = MODULE_ENTRY,
    ) -> Supervisor:
        """Return a supervisor that starts a module in its sandbox.

        The worker enters `worker_entry`, if given, instead of the usual function.
        """
        entry, own_versions = module.entry, module.resolution.own_versions
        spec = LaunchSpec(
            name=entry.instance_id or entry.module,
            working_dir=sandboxed.confinement.folder,
            environ=sandboxed.environ,
            home_links=sandboxed.confinement.home_links(),
            umask=_umask_of_workers(),
            runtime=self.sandbox_planner.host.runtime.without(own_versions),
            entry=worker_entry,
            profile=sandboxed.confinement.profile,
            tree_limits=replace(sandboxed.tree_limits, totals=self._totals),
            on_line=on_line,
            session=self.options.session,
            output_per_second=output_per_second,
        )
        launcher = self.workers.launcher_at(sandboxed.level, "exec" if own_versions else entry.spawn)
        if sandboxed.level in LEVELS_WITH_NAMESPACES:
            launcher = guarded_launcher(launcher, self._mount_guard, spec.profile)
        gate = networks.gate_of(entry)
        if gate is not None:
            launcher = NetworkedLauncher(launcher, gate)
        supervisor = Supervisor(launcher, spec, limit_enforcer=self.workers.limit_enforcer, written=entry.limits)
        self._supervisors.add(supervisor)
        if spec.name in self._revoked:
            supervisor.revoke()
        return supervisor

    def supervisors_of(self, name: str) -> tuple[Supervisor, ...]:
        """Return the supervisors of the modules that go by a name, those of sub-sessions included."""
        return tuple(one for one in self._supervisors if one.spec.name == name)

    @contextmanager
    def listing(self, session: str, modules: list[HostedModule]) -> Iterator[None]:
        """List the modules of a session, whose name is empty for the first one, until this is left."""
        listed = (session, modules)
        self._listed.append(listed)
        try:
            yield
        finally:
            self._listed.remove(listed)

    def modules(self) -> dict[str, HostedModule]:
        """Return each module by a name for people; of sub-sessions they are `agent/tool`, then `agent/tool#2`."""
        found: dict[str, HostedModule] = {}
        for session, modules in self._listed:
            for module in modules:
                plain = name = f"{session}/{module.name}" if session else module.name
                number = 1
                while name in found:
                    number += 1
                    name = f"{plain}#{number}"
                found[name] = module
        return found

    def revoke(self, name: str) -> None:
        """End the modules that go by a name for good, here and in sub-sessions that are still to come."""
        self._revoked.add(name)
        for supervisor in self.supervisors_of(name):
            supervisor.revoke()

    def changes(self) -> tuple[str, ...]:
        """Return, for people, what happened to guarded files in granted folders."""
        return tuple(dict.fromkeys([*self._guarded.lines(), *self.sandbox_planner.changes()]))


@asynccontextmanager
async def further_sandboxes(
    sandbox_planner: SandboxPlanner, folder: Path, audit: AuditLog
) -> AsyncIterator[SessionSandboxes]:
    """Provide sandboxes for further workers of the same entries, with folders of theirs in `folder`.

    Two workers of one entry share no gate and no traffic, and have the same rights. The only folder that they share is
    the home of an entry with `state: keep`: there is one for the entry's module, source, project and instance. So each
    worker finds what the others write at the same time, and all of it together counts against each one's `tmp_max`.
    Leaving ends every connection, and removes what was made; such a home stays.
    """
    own = Path(tempfile.mkdtemp(prefix="session-", dir=folder))
    networks = Networks(own, audit)

    async def close() -> None:
        try:
            await networks.aclose()
        finally:
            with anyio.CancelScope(shield=True):  # in a thread: modules may have left any number of files
                await anyio.to_thread.run_sync(remove_private_folder, own)

    try:
        yield SessionSandboxes(lambda entry: sandbox_planner.another(entry, networks, own), networks)
    finally:
        await close_within_bound(close)


class _GuardedFiles:
    """The changes of guarded files in granted folders; no module is ended for them, as editors do the same."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._replaced: dict[tuple[str, str], Replacement] = {}
        self._unguarded: list[str] = []

    def on_replaced(self, replacement: Replacement) -> None:
        """Note that another program replaced something."""
        key = (replacement.module, replacement.path)
        self._replaced.pop(key, None)  # the latest note comes last
        self._replaced[key] = replacement
        self._audit.record(
            "guarded.replaced",
            module=replacement.module,
            path=replacement.path,
            what=replacement.what,
            problem=replacement.problem,
        )

    def on_unguarded(self, problem: str) -> None:
        """Note that something cannot be guarded."""
        self._unguarded.append(problem)
        self._audit.record("guarded.problem", problem=problem)

    def lines(self) -> tuple[str, ...]:
        """Return all of it, for people."""
        # If several modules see it, one that has it open counts.
        replaced = {one.path: one.line for one in sorted(self._replaced.values(), key=lambda one: bool(one.problem))}
        return (*self._unguarded, *replaced.values())


def _paths(options: StartOptions) -> SessionPaths:
    """Return where a session is; blocks. What is to be hidden is made first, as far as it can be made."""
    environ = options.environ
    with suppress(OSError):
        control_folder(environ)
    kept = (*options.kept, *make_operator_folders(environ))
    return SessionPaths(options.working_dir, environ, kept, PrivatePlaces.of_user(environ, options.journals))


def _umask_of_workers() -> int:
    """Return the umask of this process, as far as it is about others; the user's own rights are never taken away."""
    mask = own_umask()
    return _OF_OTHERS if mask is None else mask & _OF_OTHERS
