"""The means of one session: its template, its workers, the router between them.

Made once and given up once. Leaving ends every process and task that came from here, whatever
happened inside and also when the leaving itself is cancelled; each wait on the way is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.kernel.clearance import Clearance
from paddock.kernel.confinements import Confinements, OnConfined, Place
from paddock.kernel.control_groups import find_groups
from paddock.kernel.coordinator import HostedCoordinator
from paddock.kernel.journal import ContextJournal
from paddock.kernel.mirrors import Mirrors
from paddock.kernel.module import HostedModule
from paddock.kernel.modules import HostedModules
from paddock.kernel.networked_launcher import NetworkedLauncher
from paddock.kernel.networks import Networks
from paddock.kernel.operator_folders import make_operator_folders
from paddock.kernel.private_folder import make_private_folder, remove_private_folder
from paddock.kernel.service import HostService
from paddock.plan.models import ModuleEntry
from paddock.policy import grants_of
from paddock.policy.attempt import AttemptJudge
from paddock.policy.secret_values import NO_SECRETS, SecretValues
from paddock.process.bubblewrap import bubblewrap_command
from paddock.process.exec import ExecLauncher
from paddock.process.folder_quota import FolderQuota
from paddock.process.launcher import Launcher, LaunchSpec
from paddock.process.output import OutputLine
from paddock.process.ration import Rationing
from paddock.process.supervisor import Supervisor
from paddock.process.template import TemplateLauncher
from paddock.process.watchdog import Watchdog
from paddock.rpc.router import Router
from paddock.rpc.values import Values
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.kernel.cancellation import CancellationToken
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.session import AmplifierSession
from paddock_sources import Resolution

OnOutput = Callable[[str, OutputLine], None]
"""Told of each line that a module prints, with the module's name."""

_STOP_SECONDS: Final = 20.0  # for every process to end; each is killed long before

_log = logging.getLogger(__name__)


class Hosting:
    """Everything that one session's modules run on."""

    def __init__(
        self,
        *,
        working_dir: Path,
        environ: Mapping[str, str],
        on_output: OnOutput | None = None,
        kept: Iterable[Path] = (),
        isolation: IsolationLevel | None = None,
        audit: AuditLog | None = None,
        on_confined: OnConfined | None = None,
    ) -> None:
        self.working_dir = working_dir
        self.audit = audit or AuditLog.silent()
        self._environ = environ
        self._on_output = on_output
        self._kept = tuple(kept)
        self._isolation = isolation
        self._on_confined = on_confined
        self.values = Values()
        self.values.never_shared = (ModuleCoordinator, AmplifierSession, HookRegistry, CancellationToken, Hosting)
        self.mirrors = Mirrors()
        self._tasks = asyncio.TaskGroup()
        self._launchers: dict[str, Launcher] = {}
        self._scratch: Path
        self._secrets: SecretValues = NO_SECRETS

    async def __aenter__(self) -> Self:
        groups = await anyio.to_thread.run_sync(find_groups)
        operators = await anyio.to_thread.run_sync(make_operator_folders, self._environ)
        self._launchers = {
            "template": TemplateLauncher(groups),
            "exec": ExecLauncher(groups),
            "bubblewrap": ExecLauncher(None, bubblewrap_command),  # in its namespaces no groups can be made
        }
        self._scratch = make_private_folder()
        self._networks = Networks(self._scratch, self.audit)
        try:
            self.confinements = Confinements(
                Place(self.working_dir, self._environ, self._scratch, (*self._kept, *operators)),
                groups,
                self._launcher_at,
                self._networks,
                isolation=self._isolation,
                on_confined=self._on_confined,
            )
        except BaseException:
            remove_private_folder(self._scratch)
            raise
        await self._tasks.__aenter__()
        watchdog = Watchdog()
        self._watching = self._tasks.create_task(watchdog.run())
        self._rationing = Rationing(watchdog)
        self.router = Router(self.values, self._tasks)
        self.values.router = self.router
        self.journal = ContextJournal(self.router)
        self.modules = HostedModules(self.router, self.journal)
        self.router.afterlife = self.modules
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_SECONDS):
                await self._stop_modules()
        finally:
            try:
                await _bounded(self._networks.aclose)
            finally:
                for launcher in self._launchers.values():
                    await _bounded(launcher.aclose)
                self._watching.cancel()
                self.router.cancel_all()
                try:
                    await self._tasks.__aexit__(None, None, None)
                finally:
                    with anyio.CancelScope(shield=True):  # in a thread: modules may have left any number of files
                        await anyio.to_thread.run_sync(remove_private_folder, self._scratch)

    async def _stop_modules(self) -> None:
        # The orchestrator first: what it still has to put in order, it does with the others' help.
        for module in self.modules.all:
            if module.kind == "orchestrator":
                await module.stop()
        async with anyio.create_task_group() as stopping:
            for module in self.modules.all:
                if module.kind != "orchestrator":
                    stopping.start_soon(module.stop)

    def make_coordinator(self, session: object) -> HostedCoordinator:
        """Return a coordinator for `session`, which may be prepared before there is anything to run modules on."""
        coordinator = HostedCoordinator(session, self.values, self.mirrors)
        coordinator.register_capability("session.working_dir", str(self.working_dir))
        return coordinator

    def bind(self, coordinator: HostedCoordinator) -> None:
        """Serve workers on behalf of `coordinator`."""
        self.coordinator = coordinator
        self.router.service = HostService(self.router, coordinator, self.mirrors, self.modules.of)

    async def shelter(self, clearance: Clearance) -> None:
        """Decide how each module that was cleared is shut in; what they are started with is settled by that.

        Raises:
            PaddockError: they cannot be.
        """
        await self.confinements.decide(clearance)
        self._secrets = clearance.secrets

    async def start(self, entry: ModuleEntry, resolution: Resolution) -> HostedModule:
        """Start a module that has a shelter and have it mounted; `entry` is the one with the permissions in effect.

        Raises:
            ModuleError: it cannot be; its process, if there was one, is ended.
        """
        name = entry.instance_id or entry.module
        shelter = self.confinements.of(entry)
        spec = LaunchSpec(
            name=name,
            working_dir=shelter.confinement.folder,
            environ=shelter.environ,
            runtime=self.confinements.runtime.without(resolution.own_versions),
            profile=shelter.confinement.profile,
            ration=shelter.ration,
            on_line=self._pump(name),
        )
        launcher = self._launcher_at(shelter.level, "exec" if resolution.own_versions else entry.spawn)
        gate = self._networks.gate_of(entry)
        if gate is not None:
            launcher = NetworkedLauncher(launcher, gate)
        supervisor = Supervisor(launcher, spec, rationing=self._rationing)
        config = self._secrets.expanded(entry.config, grants_of(entry.permissions))
        module = HostedModule(entry, resolution, supervisor, self.router, self.mirrors, config, shelter.limits)
        module.audit = self.audit
        module.explainer = AttemptJudge(self.confinements.subject_of(entry))
        self._networks.tell_denials(entry, module.deny)
        self.modules.add(module)
        if shelter.home is not None:
            self.router.spawn(FolderQuota(shelter.home, shelter.limits.tmp_max, module.on_over_quota).run())
        await module.start()
        return module

    def _launcher_at(self, level: IsolationLevel, spawn: Literal["template", "exec"] = "template") -> Launcher:
        return self._launchers["bubblewrap" if level == "bwrap" else spawn]

    def _pump(self, name: str) -> Callable[[OutputLine], None] | None:
        on_output = self._on_output
        if on_output is None:
            return None
        return lambda line: on_output(name, line)


async def _bounded(close: Callable[[], Awaitable[None]]) -> None:
    """Give something up, whoever is cancelled meanwhile; what it raises or how long it takes is no reason to stop."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_SECONDS):
        try:
            await close()
        except Exception:
            _log.exception("something of the session could not be closed")
