"""The means of one session: its template, its workers, the router between them.

Made once and given up once. Leaving ends every process and task that came from here, whatever
happened inside and also when the leaving itself is cancelled; each wait on the way is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio

from paddock.errors import ModuleMissingError
from paddock.kernel.coordinator import HostedCoordinator
from paddock.kernel.journal import ContextJournal
from paddock.kernel.mirrors import Mirrors
from paddock.kernel.module import HostedModule
from paddock.kernel.modules import HostedModules
from paddock.kernel.service import HostService
from paddock.plan.models import ModuleEntry
from paddock.process.exec import ExecLauncher
from paddock.process.launcher import Launcher, LaunchSpec
from paddock.process.output import OutputLine
from paddock.process.runtime import WorkerRuntime
from paddock.process.supervisor import Supervisor
from paddock.process.template import TemplateLauncher
from paddock.rpc.router import Router
from paddock.rpc.values import Values
from paddock_sdk.kernel.cancellation import CancellationToken
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.session import AmplifierSession
from paddock_sources import Resolution, Resolver, SourceError

OnOutput = Callable[[str, OutputLine], None]
"""Told of each line that a module prints, with the module's name."""

_PASSED_ON: Final = ("LANG", "LC_ALL", "TZ")  # of the host's environment, to every module
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_STOP_SECONDS: Final = 20.0  # for every process to end; each is killed long before

_log = logging.getLogger(__name__)


class Hosting:
    """Everything that one session's modules run on."""

    def __init__(
        self, *, working_dir: Path, environ: Mapping[str, str], base: Path, on_output: OnOutput | None = None
    ) -> None:
        self.working_dir = working_dir
        self._environ = environ
        self._on_output = on_output
        self._resolver = Resolver(environ, base=base)
        self._tasks = asyncio.TaskGroup()
        self._runtime = WorkerRuntime.locate()
        self._launchers: dict[str, Launcher] = {"template": TemplateLauncher(), "exec": ExecLauncher()}
        self._scratch: Path

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._scratch = Path(tempfile.mkdtemp(prefix="paddock-"))
        self.values = Values()
        self.values.never_shared = (ModuleCoordinator, AmplifierSession, HookRegistry, CancellationToken, Hosting)
        self.mirrors = Mirrors()
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
                with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_SECONDS):
                    for launcher in self._launchers.values():
                        await launcher.aclose()
            finally:
                self.router.cancel_all()
                await self._tasks.__aexit__(None, None, None)
                shutil.rmtree(self._scratch, ignore_errors=True)

    async def _stop_modules(self) -> None:
        # The orchestrator first: what it still has to put in order, it does with the others' help.
        for module in self.modules.all:
            if module.kind == "orchestrator":
                await module.stop()
        async with anyio.create_task_group() as stopping:
            for module in self.modules.all:
                if module.kind != "orchestrator":
                    stopping.start_soon(module.stop)

    def bind(self, coordinator: HostedCoordinator) -> None:
        """Serve workers on behalf of `coordinator`."""
        self.coordinator = coordinator
        self.router.service = HostService(self.router, coordinator, self.mirrors, self.modules.of)
        coordinator.register_capability("session.working_dir", str(self.working_dir))

    def resolve(self, entry: ModuleEntry) -> Resolution:
        """Find the code of a plan entry's module.

        Raises:
            ModuleMissingError: with every place that was looked at.
        """
        try:
            return self._resolver.resolve(entry.module, entry.source)
        except SourceError as exc:
            raise ModuleMissingError.of(entry.module, exc) from exc

    async def start(self, entry: ModuleEntry, resolution: Resolution) -> HostedModule:
        """Start a module and have it mounted.

        Raises:
            ModuleError: it cannot be; its process, if there was one, is ended.
        """
        name = entry.instance_id or entry.module
        spec = LaunchSpec(
            name=name,
            working_dir=self.working_dir,
            environ=self._environ_of(entry, name),
            runtime=self._runtime,
            on_line=self._pump(name),
        )
        supervisor = Supervisor(self._launchers[entry.spawn], spec)
        config = entry.expanded_config(self._environ)
        module = HostedModule(entry, resolution, supervisor, self.router, self.mirrors, config)
        self.modules.add(module)
        await module.start()
        return module

    def _environ_of(self, entry: ModuleEntry, name: str) -> dict[str, str]:
        home = Path(tempfile.mkdtemp(prefix="home-", dir=self._scratch))
        environ = {key: self._environ[key] for key in _PASSED_ON if key in self._environ}
        environ |= {"PATH": _PATH, "HOME": os.fspath(home), "TMPDIR": os.fspath(home)}
        for grant in entry.permissions.env:
            key, is_set, value = grant.partition("=")
            if is_set:
                environ[key] = value
            elif key in self._environ:
                environ[key] = self._environ[key]
        return environ

    def _pump(self, name: str) -> Callable[[OutputLine], None] | None:
        on_output = self._on_output
        if on_output is None:
            return None
        return lambda line: on_output(name, line)
