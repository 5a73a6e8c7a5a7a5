"""The runtime of one session: its workers, the router between them, and the state that they share.

Made once and released once. Leaving ends every process and task that was started here, also after an error inside and
when leaving is cancelled; each wait is bounded. Objects that need each other are tied together here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio

from paddock.audit import AuditLog
from paddock.authorization.authorizer import AuthorizedModule
from paddock.errors import Denial
from paddock.plan.permissions import grants_of
from paddock.plan.plain_data import merged
from paddock.policy.grants import Grants
from paddock.policy.limits import OUTPUT_PER_SECOND
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Handle, Peer
from paddock.rpc.router import Router
from paddock.rpc.tasks import SessionTasks
from paddock.rpc.trace import Trace
from paddock.session.host_api.service import HostService
from paddock.session.journals.context_journal import ContextJournal
from paddock.session.journals.journal_store import JournalStore
from paddock.session.journals.session_journal import SessionJournal
from paddock.session.module import HostedModule
from paddock.session.modules import HostedModules
from paddock.session.resource_use import record_use
from paddock.session.resources import SessionResources, SessionSandboxes, further_sandboxes
from paddock.session.shutdown import ShutdownDeadlines
from paddock.session.state.coordinator import HostedCoordinator, headed
from paddock.session.state.mirrors import Mirrors
from paddock.workers.exit_report import ExitReason
from paddock.workers.output import OutputLine
from paddock.workers.worker_host import run_undisturbed
from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
from paddock_sdk.kernel.cancellation import CancellationToken
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.session import AmplifierSession
from paddock_sources.errors import without_credentials

T = TypeVar("T")

_log = logging.getLogger(__name__)

_GRANTED_PATHS: Final = "session.granted_paths"  # the capability that tells each module its own grants
_STOP_SECONDS: Final = 20.0  # for every process to end; each is killed long before


class SessionCore:
    """The part of a session before its workers: its coordinator, and the marshaller of its values.

    An application may prepare the coordinator before there are resources to run modules on.
    """

    def __init__(
        self,
        session: object,
        working_dir: Path | None = None,
        *,
        approval: ApprovalSystem | None = None,
        display: DisplaySystem | None = None,
    ) -> None:
        self.marshaller = Marshaller(
            never_shared=(
                ModuleCoordinator,
                AmplifierSession,
                HookRegistry,
                CancellationToken,
                SessionRuntime,
                SessionResources,
            )
        )
        self.mirrors = Mirrors(self.marshaller)
        self.coordinator = HostedCoordinator(session, self.marshaller, self.mirrors, approval, display)
        if working_dir is not None:
            self.coordinator.register_capability("session.working_dir", str(working_dir))


class SessionRuntime:
    """Everything that one session's modules run on; `open` makes and releases it."""

    def __init__(
        self,
        core: SessionCore,
        resources: SessionResources,
        sandboxes: SessionSandboxes,
        tasks: SessionTasks,
        audit: AuditLog,
        name: str | None,
        journal: SessionJournal | None = None,
    ) -> None:
        self.coordinator = core.coordinator
        self.marshaller = core.marshaller
        self.deadlines = ShutdownDeadlines()
        self.journal = ContextJournal(core.marshaller, JournalStore() if journal is None else journal)
        self.modules = HostedModules(core.marshaller, self.journal, journal)
        # A knot: the host's methods answer through the router, which hands requests on to them.
        self.router = Router(
            core.marshaller,
            tasks,
            self.modules,
            lambda router: HostService(router, core.coordinator, core.mirrors, self.modules.of, resources.definitions),
        )
        self.host_calls = HostCalls(self.router)
        if resources.options.trace is not None:
            self.modules.followers.append(partial(self._follow, resources.options.trace))
        if resources.options.first_calls.before_acting is not None:
            self.modules.followers.append(self._guard)
        self._mirrors = core.mirrors
        self._resources = resources
        self._sandboxes = sandboxes
        self._granted: dict[HostedModule, Grants] = {}
        self._tasks = tasks
        self._audit = audit
        self._name = name
        self._quarantines = None if journal is None else journal.quarantines

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        core: SessionCore,
        resources: SessionResources,
        *,
        audit: AuditLog | None = None,
        name: str | None = None,
        journal: SessionJournal | None = None,
    ) -> AsyncIterator[SessionRuntime]:
        """Provide the runtime of a session's modules; leaving ends them.

        `name` marks the output of modules in a sub-session; the first session has none, and uses the sandboxes that
        were planned. A `journal` outlives this process, and is its owner's to close.
        """
        audit = audit or resources.options.audit
        async with AsyncExitStack() as steps:
            tasks = await steps.enter_async_context(SessionTasks())
            sandboxes = resources.sandboxes
            if name is not None:
                sandboxes = await steps.enter_async_context(
                    further_sandboxes(resources.sandbox_planner, resources.folder, audit)
                )
            runtime = cls(core, resources, sandboxes, tasks, audit, name, journal)
            steps.enter_context(resources.listing(name or "", runtime.modules.all))
            try:
                yield runtime
            finally:
                await run_undisturbed(runtime._stop_modules())

    async def _stop_modules(self) -> None:
        with anyio.move_on_after(_STOP_SECONDS):
            try:  # the orchestrator first: its cleanup may need the others
                for module in self.modules.all:
                    if module.kind == "orchestrator":
                        await module.stop()
            finally:  # also where the loop is shut down, which cancels every task
                async with anyio.create_task_group() as stopping:
                    for module in self.modules.all:
                        stopping.start_soon(module.stop)
            async with anyio.create_task_group() as finishing:
                for module in self.modules.all:
                    finishing.start_soon(module.attempts.finish)  # the last are in its log once it ended
            for module, grants in self._granted.items():
                record_use(module, grants, self._sandboxes.networks.gate_of(module.entry))

    async def kill(self) -> None:
        """End every process at once, and start none again; calls that wait for one fail."""
        for module in self.modules.all:
            module.supervisor.end(ExitReason.KILLED_BY_HOST)
        async with anyio.create_task_group() as stopping:
            for module in self.modules.all:
                stopping.start_soon(module.supervisor.stop)

    def launch_ahead(self, modules: Iterable[tuple[AuthorizedModule, dict[str, Any]]]) -> None:
        """Prepare the processes of modules side by side, with overrides of their configurations."""
        for authorized, overrides in modules:
            self._take_on(authorized, overrides).launch_ahead()

    async def start(self, authorized: AuthorizedModule) -> HostedModule:
        """Start a module in its sandbox and mount it.

        Raises:
            ModuleError: it cannot be; its process, if there was one, is ended.
        """
        module = self.modules.at(authorized.entry.path) or self._take_on(authorized, {})
        await module.start()
        definitions = self._resources.definitions
        pins = definitions.at(authorized.entry.path)
        if pins is not None and not pins.has_started:
            access = self.coordinator.get_capability(f"mcp.{module.name}")
            if problem := await definitions.started(pins, access):
                module.deny(Denial("give", "instructions", module.name, reason=problem))
        return module

    def module_of(self, tool: object) -> HostedModule | None:
        """Return the module whose tool it is; None for the application's own, and for none."""
        handle = None if tool is None else self.marshaller.handle_of(tool)
        return self.modules.of(handle.owner) if isinstance(handle, Handle) else None

    async def denials_of(self, tool: object, began: float) -> tuple[Denial, ...]:
        """Return what a tool's module was refused since a time of the loop, once all that was tried is judged."""
        module = self.module_of(tool)
        if module is None:
            return ()
        await module.attempts.settled()
        return module.denials_since(began)

    def beside(self, work: Coroutine[Any, Any, T], context: Context) -> asyncio.Task[T]:
        """Run `work`, which must not raise, as a task that ends before this does."""
        return self._tasks.beside(work, context)

    def _take_on(self, authorized: AuthorizedModule, overrides: dict[str, Any]) -> HostedModule:
        """Return a module that can be started; `overrides` go over its configuration."""
        entry, resources, networks = authorized.entry, self._resources, self._sandboxes.networks
        sandboxed = self._sandboxes.of(entry)
        supervisor = resources.supervisor(
            authorized,
            sandboxed,
            networks,
            on_line=self._pump(entry.instance_id or entry.module),
            output_per_second=OUTPUT_PER_SECOND,
        )
        if self._quarantines is not None:
            self._quarantines.hold(supervisor, without_credentials(authorized.resolution.source))
        # After secrets were filled in: a reference in an override stays plain text.
        config = merged(resources.secrets.expanded(entry.config, grants_of(entry.permissions)), overrides)
        if (server := authorized.resolution.server) is not None:
            config |= {"command": list(server.command), "name": entry.instance_id or entry.module}
        granted = self.marshaller.encode(sandboxed.confinement.grants.named())
        module = HostedModule(
            entry,
            authorized.resolution,
            supervisor,
            self.host_calls,
            self.coordinator,
            self._mirrors,
            config,
            sandboxed.limits,
            self._audit,
            deadlines=self.deadlines,
            judge=resources.sandbox_planner.judge_of(entry, sandboxed, networks),
            in_session=self.modules.in_session,
            own_capability=headed(self.marshaller, _GRANTED_PATHS, granted),
        )
        networks.tell_denials(entry, module.deny)
        resources.definitions.begin(entry, authorized.resolution)
        self.modules.add(module)
        self._granted[module] = sandboxed.confinement.grants
        if sandboxed.home is not None:
            from paddock.workers.limits.folder_quota import FolderQuota  # only here, as few modules keep their home

            quota = FolderQuota(
                sandboxed.home, sandboxed.limits.tmp_max, lambda: supervisor.process, module.on_over_quota
            )
            self._tasks.spawn(quota.run())
        return module

    def _follow(self, trace: Trace, peer: Peer, module: HostedModule) -> None:
        process = module.supervisor.process
        if process is not None:
            trace.follow(peer, process.pid, self._shown(module.name), self.router.method_name)

    def _guard(self, peer: Peer, module: HostedModule) -> None:
        options, entry = self._resources.options, module.entry
        if self._granted[module].act_outside(options.working_dir, entry, module.level):
            options.first_calls.guard(self.router, peer, entry.path, self.router.host_methods.name_of)

    def _shown(self, name: str) -> str:
        return f"{self._name}/{name}" if self._name is not None else name

    def _pump(self, name: str) -> Callable[[OutputLine], None] | None:
        on_output = self._resources.options.on_output
        if on_output is None:
            return None
        shown = self._shown(name)
        has_failed = False

        def hand_on(line: OutputLine) -> None:
            nonlocal has_failed
            try:
                on_output(shown, line)
            except Exception:  # the application's own: there is no caller to raise it to, and the module goes on
                if not has_failed:
                    _log.exception("the application's on_output failed for a line of %s; it still gets the next", shown)
                has_failed = True

        return hand_on
