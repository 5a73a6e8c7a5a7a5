"""The start-up sequence of modules: resolve, authorise, confine, start, mount.

Sessions, single calls and trials use it; a sub-session begins at the fourth step, with the authorisation and sandboxes
of its first session. Each step is one call, and begins when the step before has succeeded for every module. The first
three are here. `SessionRuntime.start` does the other two for a module, `HostedSession.start` for those of a plan, in
the contract's order. A trial's worker, which mounts nothing, is started by `SessionResources.supervisor`.

A step that refuses raises an error that names it and a fix. The refusal is recorded, and nothing remains of the earlier
steps: leaving ends every process, and removes every folder that was made, also when it is cancelled.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.to_thread

from paddock.authorization.authorizer import Authorization, AuthorizedModule, Authorizer, PlanStart
from paddock.authorization.preflight import checked_resolutions
from paddock.errors import ConsentRefusedError, PaddockError, PlanError, PolicyRefusedError
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.planner import SandboxPlanner
from paddock.isolation.sandbox_host import SandboxHost
from paddock.module_sources.definitions import DefinitionLock
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import KeptLockFile, ModuleSources
from paddock.plan import USUAL_PLAN
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.policy.pins import LockMovedError, Pins
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.session.recorder import StartRecord
from paddock.session.resources import SessionResources, StartOptions
from paddock_sdk.kernel.mounts import RESOLVER_POINT
from paddock_sources import Resolution
from paddock_sources.cache import SourceCache
from paddock_sources.lock.lock_file import LOCK_FILE

if TYPE_CHECKING:
    from paddock_sdk.kernel.coordinator import ModuleCoordinator

_OF_SOURCES: Final = (PolicyRefusedError, LockMovedError, ConsentRefusedError)  # else code is missing, and none refused


@dataclass(frozen=True, slots=True)
class FoundCode:
    """The folder of each entry's code, by the entry's place, and the pins of its sources.

    `lock` writes new pins into the lock file, where there is one. `definitions` is where those of MCP servers' tools
    are pinned.
    """

    entries: tuple[ModuleEntry, ...]
    by_path: Mapping[str, Resolution]
    pins: Pins = field(default_factory=dict)
    lock: Callable[[], Awaitable[None]] | None = None
    definitions: DefinitionLock | None = None


class StartRequest(Protocol):
    """Modules that a caller wants to run."""

    @property
    def options(self) -> StartOptions: ...

    async def check(self, authorizer: Authorizer) -> None:
        """Refuse what the request alone shows to be wrong, before anything is fetched."""

    def resolved(self, authorizer: Authorizer, host: SandboxHost) -> AbstractAsyncContextManager[FoundCode]:
        """Provide the code of each module for as long as this is open; what fetches it runs in workers of `host`."""
        ...

    async def authorize(
        self,
        authorizer: Authorizer,
        code: FoundCode,
        sandbox_planner: SandboxPlanner,
    ) -> Authorization:
        """Decide what the modules may do."""
        ...


@dataclass(frozen=True, slots=True)
class ConfinedModules:
    """Modules that can be started, and the resources that they run on."""

    authorization: Authorization
    resources: SessionResources

    @property
    def by_path(self) -> dict[str, AuthorizedModule]:
        """The modules by the places of their entries."""
        return {module.entry.path: module for module in self.authorization.modules}


@asynccontextmanager
async def confined(
    request: StartRequest,
    authorizer: Authorizer,
    record: StartRecord,
    *,
    host: SandboxHost | None = None,
) -> AsyncIterator[ConfinedModules]:
    """Resolve, authorise and confine modules, so that they can be started until this is left.

    One host starts all processes, those that fetch code and those of modules: `host`, or one of its own.

    Raises:
        PaddockError: one of the steps refused; nothing was started.
    """
    options = request.options
    async with AsyncExitStack() as stack:
        if host is None:
            host = await stack.enter_async_context(SandboxHost.started())
        with record.refusals(*_OF_SOURCES):
            code = await stack.enter_async_context(request.resolved(authorizer, host))
        stack.push_async_callback(record.end)
        kept = KeptLockFile()
        if options.locks is not None:
            stack.push_async_callback(_release, kept)
        resources = await stack.enter_async_context(SessionResources.open(options, host))
        stack.push_async_callback(resources.definitions.write)
        sandbox_planner = resources.sandbox_planner
        with record.refusals(PaddockError):
            authorization = await request.authorize(authorizer, code, sandbox_planner)
            if code.lock is not None:
                await code.lock()
            resources.definitions.lock = code.definitions
            if options.locks is not None:
                entries = [module.entry for module in authorization.modules]
                keep = partial(kept.keep, options.locks, entries, options.working_dir)
                sandbox_planner.keep(await anyio.to_thread.run_sync(keep))
                resources.definitions.writes_late = kept.is_in_reach
            with located(authorization.plan):
                await resources.plan_sandboxes(authorization)
            await authorizer.check_places(authorization)
        await record.begin(authorization, sandbox_planner)
        yield ConfinedModules(authorization, resources)


@dataclass(frozen=True, slots=True)
class ModuleAtHand:
    """A request for one module whose code was found before, and whose entry is made from flags."""

    entry: ModuleEntry
    resolution: Resolution
    options: StartOptions

    async def check(self, authorizer: Authorizer) -> None:
        """Refuse nothing."""

    @asynccontextmanager
    async def resolved(self, authorizer: Authorizer, host: SandboxHost) -> AsyncIterator[FoundCode]:
        yield FoundCode((self.entry,), {self.entry.path: self.resolution})

    async def authorize(
        self,
        authorizer: Authorizer,
        code: FoundCode,
        sandbox_planner: SandboxPlanner,
    ) -> Authorization:
        return await authorizer.authorize_call(self.entry, self.resolution, self.options.isolation)


class PlanRequest:
    """A plan's modules: found as its lock file pins them, authorised as the user accepted the plan."""

    def __init__(
        self,
        start: PlanStart,
        options: StartOptions,
        coordinator: ModuleCoordinator | None,
        sources: SourceOptions,
    ) -> None:
        self.secrets: SecretValues = NO_SECRETS
        self.start = start
        self.plan = start.plan
        self.options = options
        self._coordinator = coordinator
        self._source_options = sources

    def mask(self, text: str) -> str:
        """Return `text` with the values of its secrets hidden, for text that people or files get."""
        return self.secrets.mask(text)

    def remedy(self, module: str) -> str:
        """Say what a person does about definitions of a module's tools that are not pinned."""
        return how_to_pin(self.plan.origin or Path(USUAL_PLAN), module)

    async def check(self, authorizer: Authorizer) -> None:
        """Refuse what the plan and the flags alone show to be wrong, before anything is fetched."""
        await authorizer.check_plan(self.start)

    @asynccontextmanager
    async def resolved(self, authorizer: Authorizer, host: SandboxHost) -> AsyncIterator[FoundCode]:
        environ = self.options.environ
        with SourceCache.of_user(environ, check=check_cancelled) as cache:
            base = self.options.locks or Path.cwd()
            accepted = await authorizer.is_accepted(self.plan, trust_plan=self.start.trust_plan)
            resolver = self._coordinator and self._coordinator.get(RESOLVER_POINT)
            sources = ModuleSources(
                cache,
                environ,
                base,
                self.options.locks,
                authorizer.policy,
                self._source_options if resolver is None else replace(self._source_options, application=resolver),
                self.options.audit,
                lends_keys=accepted,
                host=host,
            )
            entries = tuple(self.plan.entries())
            found = await sources.resolve(
                entries,
                self.plan.positions,
                rules=self.plan.rules_by_entry(),
                check_pins=partial(authorizer.check_pins, self.start, base / LOCK_FILE),
                check_rights=partial(authorizer.check_rights, self.start),
            )
            definitions = sources.definitions(self.remedy)
            yield FoundCode(entries, checked_resolutions(self.plan, found), sources.pins, sources.write, definitions)

    async def authorize(
        self,
        authorizer: Authorizer,
        code: FoundCode,
        sandbox_planner: SandboxPlanner,
    ) -> Authorization:
        authorization = await authorizer.authorize_plan(
            self.start,
            code.by_path,
            lambda: sandbox_planner.weaker_level(code.entries),
            code.pins,
        )
        self.secrets = authorization.secrets
        return authorization


def how_to_pin(plan: Path, module: str) -> str:
    """Say what a person does about definitions of a module's tools that are not pinned."""
    command = shlex.join(["paddock", "mcp", "pin", os.path.relpath(plan), module])
    return f"`{command}` shows it, and pins it if you agree"


@contextmanager
def located(plan: MountPlan | None) -> Iterator[None]:
    """Add the lines of a plan's file to errors about it."""
    try:
        yield
    except (PlanError, PolicyRefusedError) as error:
        if plan is not None and plan.positions.has_lines:
            error.locate(plan.positions.file, plan.positions.spot_of)
        raise


async def _release(kept: KeptLockFile) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(kept.release)
