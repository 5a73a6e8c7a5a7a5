"""What the modules of a session and of those it starts run on: what starts processes, sandboxes, networks, secrets.

Made once and given up once. Leaving ends every process and task that came from here, whatever happened inside and also
when the leaving itself is cancelled; each wait on the way is bounded. Knows nothing of what is said to modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorization
from paddock.isolation.network import Networks
from paddock.isolation.operator_folders import make_operator_folders
from paddock.isolation.planner import OnConfined, SandboxPlanner, SessionPaths
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.workers.mount_guard import MountGuard, Replacement
from paddock.workers.output import OutputLine
from paddock.workers.worker_host import WorkerHost, close_within_bound
from paddock_sandbox.profile import IsolationLevel

OnOutput = Callable[[str, OutputLine], None]
"""Told of each line that a module prints, with the module's name."""


class SessionResources:
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
        self.workers: WorkerHost
        self.sandbox_planner: SandboxPlanner
        self.networks: Networks
        self.mount_guard: MountGuard
        self._replaced: dict[tuple[str, str], Replacement] = {}
        self._unguarded: list[str] = []
        self._environ = environ
        self._kept = tuple(kept)
        self._isolation = isolation
        self._on_confined = on_confined
        self._steps = AsyncExitStack()

    @property
    def folder(self) -> Path:
        """The host's own folder, which goes with this."""
        return self.workers.folder

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as steps:  # the latest first, and each of them although one before it failed
            self.workers = await steps.enter_async_context(WorkerHost.started())
            operators = await anyio.to_thread.run_sync(make_operator_folders, self._environ)
            self.networks = Networks(self.folder, self.audit)
            self.sandbox_planner = SandboxPlanner(
                SessionPaths(self.working_dir, self._environ, self.folder, (*self._kept, *operators)),
                self.workers.groups,
                self.workers.launcher_at,
                self.networks,
                isolation=self._isolation,
                on_confined=self._on_confined,
            )
            self.mount_guard = MountGuard(self.sandbox_planner.runtime, self._on_replaced, self._on_unguarded)
            steps.push_async_callback(close_within_bound, self.mount_guard.aclose)
            steps.push_async_callback(close_within_bound, self.networks.aclose)
            self._steps = steps.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._steps.aclose()

    async def plan_sandboxes(self, authorization: Authorization) -> None:
        """Decide how each module that was cleared is shut in; what they are started with is settled by that.

        Raises:
            PaddockError: they cannot be.
        """
        await self.sandbox_planner.decide(authorization)
        self.secrets = authorization.secrets

    def changes(self) -> tuple[str, ...]:
        """Return, for people, what became of what is guarded in granted folders."""
        # Of several modules that see it, whichever has it open counts.
        replaced = {one.path: one.line for one in sorted(self._replaced.values(), key=lambda one: bool(one.problem))}
        return tuple(dict.fromkeys([*self._unguarded, *replaced.values(), *self.sandbox_planner.changes()]))

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
