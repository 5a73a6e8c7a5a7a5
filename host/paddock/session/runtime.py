"""The means of one session: its workers, the router between them, and what they share.

Made once and given up once. Leaving ends every process and task that came from here, whatever
happened inside and also when the leaving itself is cancelled; each wait on the way is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio

from paddock.audit import AuditLog
from paddock.authorization.authorizer import AuthorizedModule
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.networked_launcher import NetworkedLauncher
from paddock.plan.merging import merged
from paddock.plan.permissions import grants_of
from paddock.policy.limits import OUTPUT_PER_SECOND
from paddock.rpc.marshal import Marshaller
from paddock.rpc.router import Router
from paddock.session.host_api.service import HostService
from paddock.session.journal import ContextJournal
from paddock.session.module import HostedModule
from paddock.session.modules import HostedModules
from paddock.session.resources import SessionResources
from paddock.session.shelters import AdditionalSandboxes, PlannedSandboxes, SessionSandboxes
from paddock.session.shutdown import ShutdownDeadlines
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.state.mirrors import Mirrors
from paddock.workers.exit_report import ExitReason
from paddock.workers.guarded_launcher import GuardedLauncher
from paddock.workers.launcher import LaunchSpec
from paddock.workers.limits.folder_quota import FolderQuota
from paddock.workers.output import OutputLine
from paddock.workers.supervisor import Supervisor
from paddock.workers.undisturbed import run_undisturbed
from paddock.workers.worker_host import close_within_bound
from paddock_sdk.kernel.cancellation import CancellationToken
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.session import AmplifierSession

T = TypeVar("T")

_LAUNCHES_AT_ONCE: Final = 16  # each has six descriptors on their way, of which a user may have only so many
_WEIGHING_SECONDS: Final = 2.0  # for what was refused last to be found out; it takes milliseconds
_STOP_SECONDS: Final = 20.0  # for every process to end; each is killed long before


class SessionRuntime:
    """Everything that one session's modules run on, by `session_resources` that has been entered before this is.

    `name` is what a further session is called where what its modules print is told apart from others'; the first has
    none.
    """

    def __init__(
        self, session_resources: SessionResources, *, audit: AuditLog | None = None, name: str | None = None
    ) -> None:
        self.session_resources = session_resources
        self.audit = audit or session_resources.audit
        self.marshaller = Marshaller()
        self.marshaller.never_shared = (
            ModuleCoordinator,
            AmplifierSession,
            HookRegistry,
            CancellationToken,
            SessionRuntime,
            SessionResources,
        )
        self.mirrors = Mirrors()
        self.deadlines = ShutdownDeadlines()
        self._name = name
        self._tasks = asyncio.TaskGroup()
        self._sandboxes: SessionSandboxes

    async def __aenter__(self) -> Self:
        session_resources = self.session_resources
        if self._name is not None:
            self._sandboxes = AdditionalSandboxes(
                session_resources.sandbox_planner, session_resources.folder, self.audit
            )
        else:
            self._sandboxes = PlannedSandboxes(session_resources.sandbox_planner, session_resources.networks)
        await self._tasks.__aenter__()
        self.router = Router(self.marshaller, self._tasks)
        self.marshaller.router = self.router
        self.journal = ContextJournal(self.router)
        self.modules = HostedModules(self.router, self.journal)
        self.router.failure_policy = self.modules
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await run_undisturbed(self._stop_modules())
        finally:
            try:
                await close_within_bound(self._sandboxes.aclose)
            finally:
                self.router.cancel_all()
                await self._tasks.__aexit__(None, None, None)

    async def _stop_modules(self) -> None:
        with anyio.move_on_after(_STOP_SECONDS):
            try:  # the orchestrator first: what it still has to put in order, it does with the others' help
                for module in self.modules.all:
                    if module.kind == "orchestrator":
                        await module.stop()
            finally:  # also where the loop is shut down, which cancels every task
                async with anyio.create_task_group() as stopping:
                    for module in self.modules.all:
                        stopping.start_soon(module.stop)
            with anyio.move_on_after(_WEIGHING_SECONDS):
                for module in self.modules.all:
                    await module.attempts.settled()  # what they last reached for is in their logs once they ended

    async def kill(self) -> None:
        """End every process at once, and start none again: what waits for one is told that it is gone."""
        for module in self.modules.all:
            module.supervisor.end(ExitReason.KILLED_BY_HOST)
        async with anyio.create_task_group() as stopping:
            for module in self.modules.all:
                stopping.start_soon(module.supervisor.stop)

    def make_coordinator(self, session: object) -> HostedCoordinator:
        """Return a coordinator for `session`, which may be prepared before there is anything to run modules on."""
        coordinator = HostedCoordinator(session, self.marshaller, self.mirrors)
        coordinator.register_capability("session.working_dir", str(self.session_resources.working_dir))
        return coordinator

    def bind(self, coordinator: HostedCoordinator) -> None:
        """Serve workers on behalf of `coordinator`."""
        self.coordinator = coordinator
        self.router.host_methods = HostService(self.router, coordinator, self.mirrors, self.modules.of)

    def launch_ahead(self, modules: Iterable[tuple[AuthorizedModule, dict[str, Any]]]) -> None:
        """Have the processes of modules, each with what is told it besides, made ready side by side for their start."""
        turn = anyio.CapacityLimiter(_LAUNCHES_AT_ONCE)
        for authorized, told in modules:
            self._take_on(authorized, told).launch_ahead(turn)

    async def start(self, authorized: AuthorizedModule) -> HostedModule:
        """Start a module that has a shelter and have it mounted.

        Raises:
            ModuleError: it cannot be; its process, if there was one, is ended.
        """
        module = self.modules.at(authorized.entry.path) or self._take_on(authorized, {})
        await module.start()
        return module

    def beside(self, work: Coroutine[Any, Any, T], context: Context) -> asyncio.Task[T]:
        """Run `work`, which must not raise, as a task that ends before this does."""
        return self._tasks.create_task(work, context=context)

    def _take_on(self, authorized: AuthorizedModule, told: dict[str, Any]) -> HostedModule:
        """Return a module that can be started; `told` is data that goes over its configuration."""
        entry, resolution = authorized.entry, authorized.resolution
        session_resources = self.session_resources
        name = entry.instance_id or entry.module
        sandboxed = self._sandboxes.of(entry)
        spec = LaunchSpec(
            name=name,
            working_dir=sandboxed.confinement.folder,
            environ=sandboxed.environ,
            home_links=sandboxed.confinement.home_links(),
            runtime=session_resources.sandbox_planner.runtime.without(resolution.own_versions),
            profile=sandboxed.confinement.profile,
            tree_limits=sandboxed.tree_limits,
            on_line=self._pump(name),
            output_per_second=OUTPUT_PER_SECOND,
        )
        launcher = session_resources.workers.launcher_at(
            sandboxed.level, "exec" if resolution.own_versions else entry.spawn
        )
        if sandboxed.level in LEVELS_WITH_NAMESPACES:
            launcher = GuardedLauncher(launcher, session_resources.mount_guard)
        gate = self._sandboxes.networks.gate_of(entry)
        if gate is not None:
            launcher = NetworkedLauncher(launcher, gate)
        supervisor = Supervisor(launcher, spec, limit_enforcer=session_resources.workers.limit_enforcer)
        # Over what secrets were filled into: a reference in what is told stays the text that it is.
        config = merged(session_resources.secrets.expanded(entry.config, grants_of(entry.permissions)), told)
        limits = sandboxed.limits
        module = HostedModule(entry, resolution, supervisor, self.router, self.mirrors, config, limits, self.audit)
        module.deadlines = self.deadlines
        module.explainer = session_resources.sandbox_planner.explainer_of(entry)
        self._sandboxes.networks.tell_denials(entry, module.deny)
        self.modules.add(module)
        if sandboxed.home is not None:
            quota = FolderQuota(sandboxed.home, sandboxed.limits.tmp_max, supervisor, module.on_over_quota)
            self.router.spawn(quota.run())
        return module

    def _pump(self, name: str) -> Callable[[OutputLine], None] | None:
        on_output = self.session_resources.on_output
        if on_output is None:
            return None
        shown = f"{self._name}/{name}" if self._name is not None else name
        return lambda line: on_output(shown, line)
