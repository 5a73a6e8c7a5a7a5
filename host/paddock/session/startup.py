"""The sequence by which modules come to run: resolve, authorise, confine, start, mount.

Sessions, single calls and trials go through it; a sub-session begins at the fourth step, with what its first session
was authorised for and confined to. Each step is one call, and begins when the one before it has succeeded for every
module. The first three are here. `SessionRuntime.start` is the other two for a module, `HostedSession.start` for those
of a plan, in the contract's order; a trial's worker, which mounts nothing, is started by `SessionResources.supervisor`.

A step that refuses raises an error that names it and what would help. The refusal is recorded, and nothing stays of
the steps before it: leaving ends every process, and removes every folder that was made, also when it is cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import anyio.to_thread

from paddock.authorization.authorizer import Authorization, AuthorizedModule, Authorizer
from paddock.errors import ConsentRefusedError, PaddockError, PlanError, PolicyRefusedError
from paddock.isolation.planner import SandboxPlanner
from paddock.module_sources.resolve import keep_lock_file
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.policy.pins import LockMovedError, Pins
from paddock.session.recorder import StartRecord
from paddock.session.resources import SessionResources, StartOptions
from paddock_sandbox.profile import IsolationLevel
from paddock_sources import Resolution

_OF_SOURCES: Final = (PolicyRefusedError, LockMovedError, ConsentRefusedError)  # else code is missing, and none refused


@dataclass(frozen=True, slots=True)
class FoundCode:
    """Where the code of each entry's module is, by the entry's place, and what its sources are pinned to.

    `lock` puts what was pinned on the way into the lock file, where there is one.
    """

    entries: tuple[ModuleEntry, ...]
    by_path: Mapping[str, Resolution]
    pins: Pins = field(default_factory=dict)
    lock: Callable[[], Awaitable[None]] | None = None


class StartRequest(Protocol):
    """Modules that somebody wants to have running."""

    def resolved(self, authorizer: Authorizer) -> AbstractAsyncContextManager[FoundCode]:
        """Have the code of each module for as long as this is open."""
        ...

    async def authorize(
        self, authorizer: Authorizer, code: FoundCode, sandbox_planner: SandboxPlanner
    ) -> Authorization:
        """Have it decided what the modules may do."""
        ...


@dataclass(frozen=True, slots=True)
class ConfinedModules:
    """Modules that can be started, and what they run on."""

    authorization: Authorization
    resources: SessionResources

    @property
    def by_path(self) -> dict[str, AuthorizedModule]:
        """The modules by the places of their entries."""
        return {module.entry.path: module for module in self.authorization.modules}


@asynccontextmanager
async def confined(
    request: StartRequest, authorizer: Authorizer, options: StartOptions, record: StartRecord
) -> AsyncIterator[ConfinedModules]:
    """Have modules resolved, authorised and confined, so that they can be started until this is left.

    Raises:
        PaddockError: one of the steps refused; nothing was started.
    """
    async with AsyncExitStack() as stack:
        with record.refusals(*_OF_SOURCES):
            code = await stack.enter_async_context(request.resolved(authorizer))
        stack.push_async_callback(record.end)
        resources = await stack.enter_async_context(SessionResources.open(options))
        sandbox_planner = resources.sandbox_planner
        with record.refusals(PaddockError):
            authorization = await request.authorize(authorizer, code, sandbox_planner)
            if code.lock is not None:
                await code.lock()
            sandbox_planner.keep(await anyio.to_thread.run_sync(_lock_files, options, authorization))
            with located(authorization.plan):
                await resources.plan_sandboxes(authorization)
            await authorizer.check_places(authorization)
        await record.begin(authorization, sandbox_planner)
        yield ConfinedModules(authorization, resources)


@dataclass(frozen=True, slots=True)
class ModuleAtHand:
    """A request for one module whose code was found before, and whose entry is made of flags."""

    entry: ModuleEntry
    resolution: Resolution
    isolation: IsolationLevel | None

    @asynccontextmanager
    async def resolved(self, authorizer: Authorizer) -> AsyncIterator[FoundCode]:
        yield FoundCode((self.entry,), {self.entry.path: self.resolution})

    async def authorize(
        self, authorizer: Authorizer, code: FoundCode, sandbox_planner: SandboxPlanner
    ) -> Authorization:
        return await authorizer.authorize_call(self.entry, self.resolution, self.isolation)


@contextmanager
def located(plan: MountPlan | None) -> Iterator[None]:
    """Have errors about a plan name the lines of its file."""
    try:
        yield
    except (PlanError, PolicyRefusedError) as error:
        if plan is not None and plan.positions.has_lines:
            error.locate(plan.positions.file, plan.positions.line_of)
        raise


def _lock_files(options: StartOptions, authorization: Authorization) -> tuple[Path, ...]:
    entries = [module.entry for module in authorization.modules]
    return () if options.locks is None else keep_lock_file(options.locks, entries, options.working_dir)
