"""What the modules of a session and of those it starts run on: templates to fork, watchdog, levels, a private folder.

Made once and given up once. Leaving ends every process and task that came from here, whatever happened inside and also
when the leaving itself is cancelled; each wait on the way is bounded. Knows nothing of what is said to modules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.kernel.clearance import Clearance
from paddock.kernel.confinements import Confinements, OnConfined, Place
from paddock.kernel.control_groups import find_groups
from paddock.kernel.networks import Networks
from paddock.kernel.operator_folders import make_operator_folders
from paddock.kernel.private_folder import PrivateFolder, sweep
from paddock.kernel.undisturbed import undisturbed
from paddock.policy.secret_values import NO_SECRETS, SecretValues
from paddock.process.bubblewrap import bubblewrap_command
from paddock.process.exec import ExecLauncher
from paddock.process.launcher import Launcher
from paddock.process.mount_guard import MountGuard, Replacement
from paddock.process.output import OutputLine
from paddock.process.ration import Rationing
from paddock.process.template import TemplateLauncher
from paddock.process.watchdog import Watchdog
from paddock_sandbox.profile import IsolationLevel

OnOutput = Callable[[str, OutputLine], None]
"""Told of each line that a module prints, with the module's name."""

_STOP_SECONDS: Final = 20.0  # for one of them to end; each is done long before

_log = logging.getLogger(__name__)


class Machinery:
    """Starts processes for one session and its sub-sessions.

    Args:
        working_dir: the folder that modules work in.
        environ: the host's environment.
        on_output: told of each line that a module prints.
        kept: files that no module may change.
        isolation: the level of entries that name none; the strongest that can be had by default.
        audit: where is noted what becomes of the modules.
        on_confined: told how each module will be shut in, before any is started.
    """

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
        self.on_output = on_output
        self.audit = audit or AuditLog.silent()
        self.secrets: SecretValues = NO_SECRETS
        self.confinements: Confinements
        self.networks: Networks
        self.rationing: Rationing
        self.mount_guard: MountGuard
        self._replaced: dict[tuple[str, str], Replacement] = {}
        self._unguarded: list[str] = []
        self._environ = environ
        self._kept = tuple(kept)
        self._isolation = isolation
        self._on_confined = on_confined
        self._tasks = asyncio.TaskGroup()
        self._launchers: dict[str, Launcher] = {}
        self._folder: PrivateFolder

    @property
    def folder(self) -> Path:
        """The host's own folder, which goes with this."""
        return self._folder.path

    async def __aenter__(self) -> Self:
        groups = await anyio.to_thread.run_sync(find_groups)
        operators = await anyio.to_thread.run_sync(make_operator_folders, self._environ)
        self._launchers = {
            "template": TemplateLauncher(groups),
            "exec": ExecLauncher(groups),
            "bubblewrap": ExecLauncher(None, bubblewrap_command),  # in its namespaces no groups can be made
        }
        await anyio.to_thread.run_sync(sweep)
        self._folder = PrivateFolder()
        self.networks = Networks(self.folder, self.audit)
        try:
            self.confinements = Confinements(
                Place(self.working_dir, self._environ, self.folder, (*self._kept, *operators)),
                groups,
                self.launcher_at,
                self.networks,
                isolation=self._isolation,
                on_confined=self._on_confined,
            )
        except BaseException:
            self._folder.remove()
            raise
        self.mount_guard = MountGuard(self.confinements.runtime, self._on_replaced, self._on_unguarded)
        await self._tasks.__aenter__()
        watchdog = Watchdog()
        self._watching = self._tasks.create_task(watchdog.run())
        self.rationing = Rationing(watchdog)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as steps:  # the latest first, and each of them although one before it failed
            steps.push_async_callback(self._remove_folder)
            steps.push_async_callback(self._tasks.__aexit__, None, None, None)
            steps.callback(self._watching.cancel)
            for launcher in self._launchers.values():
                steps.push_async_callback(bounded, launcher.aclose)
            steps.push_async_callback(bounded, self.mount_guard.aclose)
            steps.push_async_callback(bounded, self.networks.aclose)

    async def _remove_folder(self) -> None:
        # In a thread: modules may have left any number of files.
        await undisturbed(anyio.to_thread.run_sync(self._folder.remove))

    async def shelter(self, clearance: Clearance) -> None:
        """Decide how each module that was cleared is shut in; what they are started with is settled by that.

        Raises:
            PaddockError: they cannot be.
        """
        await self.confinements.decide(clearance)
        self.secrets = clearance.secrets

    def changes(self) -> tuple[str, ...]:
        """Return, for people, what became of what is guarded in granted folders."""
        # Of several modules that see it, whichever has it open counts.
        replaced = {one.path: one.line for one in sorted(self._replaced.values(), key=lambda one: bool(one.problem))}
        return tuple(dict.fromkeys([*self._unguarded, *replaced.values(), *self.confinements.changes()]))

    def _on_replaced(self, replacement: Replacement) -> None:
        """Note that others replaced something; no module is to pay for what a person's editor does as well."""
        key = (replacement.module, replacement.path)
        self._replaced.pop(key, None)  # what is noted last stands last
        self._replaced[key] = replacement
        self.audit.record(
            "guarded.replaced",
            module=replacement.module,
            path=replacement.path,
            what=replacement.what,
            problem=replacement.problem,
        )

    def _on_unguarded(self, problem: str) -> None:
        self._unguarded.append(problem)
        self.audit.record("guarded.problem", problem=problem)

    def launcher_at(self, level: IsolationLevel, spawn: Literal["template", "exec"] = "template") -> Launcher:
        """Return what starts processes at a level."""
        return self._launchers["bubblewrap" if level == "bwrap" else spawn]


async def bounded(close: Callable[[], Awaitable[None]]) -> None:
    """Give something up, whoever is cancelled meanwhile; what it raises or how long it takes is no reason to stop."""
    await undisturbed(_in_time(close))


async def _in_time(close: Callable[[], Awaitable[None]]) -> None:
    with anyio.move_on_after(_STOP_SECONDS):
        try:
            await close()
        except Exception:
            _log.exception("something of the session could not be closed")
