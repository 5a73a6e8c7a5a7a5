"""One module in sandboxed workers, for tests in another thread or on another loop than the host.

The host runs on its own loop in its own thread. Tests get objects that answer as the module's do: coroutine functions
where those are, plain functions, which block, where those are. Each mounting has its own worker without grants. Leaving
the context ends that worker; closing ends all of them.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final, Self

import anyio.from_thread
from anyio.from_thread import BlockingPortal

from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.provided import FetchOptions, TrialNeeds, provided
from paddock.authoring.trial import TrialContext
from paddock.authoring.validation import validate
from paddock.authorization.authorizer import Authorizer
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.peer import Handle
from paddock.session.module import HostedModule
from paddock.session.recorder import StartRecord
from paddock.session.resources import StartOptions
from paddock.session.runtime import SessionCore, SessionRuntime
from paddock.session.startup import ConfinedModules, ModuleAtHand, confined
from paddock.session.state.coordinator import HostedCoordinator
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.protocol.remote_object import stand_in
from paddock_sdk.validation.result import ValidationResult

# The session facts of a coordinator made for tests.
_CONFIG: Final[Mapping[str, Any]] = {
    "session": {"orchestrator": "test-orchestrator", "context": "test-context"},
}
_POINTS: Final[Mapping[Kind, str]] = {
    "tool": "tools",
    "provider": "providers",
    "orchestrator": "orchestrator",
    "context": "context",
}
_PLAIN: Final = (str, int, float, bool, bytes, list, tuple, dict, set, frozenset, type(None))


@dataclass(frozen=True, slots=True)
class MountedModule:
    """A mounted module, as a test sees it.

    `object` is the object it mounted for its kind, the first of several, None for a hook or where there is none;
    `cleanup` unmounts it, None where the module registered no cleanup.
    """

    object: Any
    coordinator: Any
    cleanup: Callable[[], None] | None


@dataclass(frozen=True, slots=True)
class ModuleSandbox:
    """A module whose workers are started in sandboxes, until `open` is left."""

    _portal: BlockingPortal
    _folder: ModuleFolder
    _kind: Kind
    _options: StartOptions
    _modules: ConfinedModules
    _config: Mapping[str, object]

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: ModuleFolder,
        kind: Kind,
        isolation: IsolationLevel | None = None,
        config: Mapping[str, object] | None = None,
    ) -> Iterator[Self]:
        """Prepare the module of `kind` for mounting at `isolation`, by default the strongest available level.

        `config` is its configuration, by default an empty one.

        Raises:
            PaddockError: it cannot be prepared.
        """
        options = StartOptions(folder.root, dict(os.environ), isolation)
        with (
            anyio.from_thread.start_blocking_portal("asyncio") as portal,
            portal.wrap_async_context_manager(_confined(folder, kind, options, config or {})) as modules,
        ):
            yield cls(portal, folder, kind, options, modules, config or {})

    def validate(self) -> Future[ValidationResult]:
        """Start validating the module, in a worker of its own, and return a function that waits for the outcome."""
        return self._portal.start_task_soon(self._validate)

    @contextmanager
    def mounted(self) -> Iterator[MountedModule]:
        """Mount the module in a worker of its own.

        Raises:
            PaddockError: it cannot be mounted.
        """
        with self._portal.wrap_async_context_manager(self._mounted()) as (module, coordinator, host_calls):
            cleanup = cache(partial(self._portal.call, coordinator.cleanup))  # that of the test, or this one
            try:
                yield MountedModule(
                    self._portal.call(self._object, coordinator, host_calls),
                    _CrossLoopObject(coordinator, self._portal),
                    cleanup if module.quota.number_of("cleanup") else None,
                )
            finally:
                cleanup()

    async def _validate(self) -> ValidationResult:
        environ = self._options.environ
        authorizer = await Authorizer.at_work(self._folder.root, environ, None)
        trial_context = TrialContext(
            authorizer, FetchOptions(environ), isolation=self._options.isolation, config=self._config
        )
        return await validate(trial_context, self._folder, self._kind)

    @asynccontextmanager
    async def _mounted(self) -> AsyncIterator[tuple[HostedModule, HostedCoordinator, HostCalls]]:
        session = SimpleNamespace(session_id="test-session", parent_id=None, config=dict(_CONFIG))
        core = SessionCore(session)
        async with SessionRuntime.open(core, self._modules.resources) as session_runtime:
            module = await session_runtime.start(self._modules.authorization.modules[0])
            yield module, core.coordinator, session_runtime.host_calls

    def _object(self, coordinator: HostedCoordinator, host_calls: HostCalls) -> Any:
        """Return a stand-in that passes its arguments to the mounted object, even where a session would not.

        In a session, an orchestrator finds its collaborators in its worker; under test it gets them as arguments.
        """
        point = _POINTS.get(self._kind)
        found = None if point is None else coordinator.get(point)
        if isinstance(found, dict):
            found = next(iter(found.values()), None)
        if found is None:
            return None
        marshaller = host_calls.marshaller
        handle = marshaller.handle_of(found)
        assert isinstance(handle, Handle)  # nothing but the module mounts anything here
        return stand_in(handle.description(marshaller.codec), 0, PortalCaller(self._portal, host_calls, handle))


@asynccontextmanager
async def _confined(
    folder: ModuleFolder, kind: Kind, options: StartOptions, config: Mapping[str, object]
) -> AsyncIterator[ConfinedModules]:
    """Prepare the module in a folder for a start without grants."""
    authorizer = await Authorizer.at_work(folder.root, options.environ, None)
    fetch_options = FetchOptions(options.environ)
    async with provided(folder, authorizer.policy, fetch_options, TrialNeeds()) as (resolution, host):
        written = {"module": resolution.module_id, "source": str(folder.root), "config": dict(config)}
        entry = ModuleEntry.read(written, EntryPlace(kind, "", folder.root))
        request = ModuleAtHand(entry, resolution, options)
        async with confined(request, authorizer, StartRecord(), host=host) as modules:
            yield modules


class PortalCaller:
    """Passes a test's calls to an object of the module."""

    def __init__(self, portal: BlockingPortal, host_calls: HostCalls, handle: Handle) -> None:
        self._portal = portal
        self._host_calls = host_calls
        self._marshaller = host_calls.marshaller
        self._handle = handle

    async def call(self, target: int, method: int, value: object, *, in_place: bool = False) -> Any:
        return await asyncio.wrap_future(self._portal.start_task_soon(self._call, method, value))

    def call_sync(self, target: int, method: int, value: object, *, in_place: bool = True) -> Any:
        return self._portal.call(self._call, method, value)

    async def stream(self, target: int, method: int, value: object) -> AsyncIterator[Any]:
        items = self._items(method, value)
        while (item := await asyncio.wrap_future(self._portal.start_task_soon(anext, items, self))) is not self:
            yield item

    def circumstances(self) -> Sequence[Any]:
        """Add nothing to the arguments: a test has no turn around it."""
        return ()

    # Values are encoded and decoded on the host's loop alone; here, on the loop of the caller.

    async def _items(self, method: int, value: object) -> AsyncIterator[Any]:
        message = self._marshaller.encode(value, share=True)
        async for item in self._host_calls.stream(self._handle, method, message):
            yield self._marshaller.decode(item)

    async def _call(self, method: int, value: object) -> Any:
        message = self._marshaller.encode(value, share=True)  # a test passes these arguments on purpose
        return await self._host_calls.call_value(self._handle, method, message)


class _CrossLoopObject:
    """An object of the host's loop, for another loop: calls to it run there."""

    def __init__(self, target: object, portal: BlockingPortal) -> None:
        self._target = target
        self._portal = portal

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        portal = self._portal
        if inspect.iscoroutinefunction(value):

            async def call(*args: Any, **kwargs: Any) -> Any:
                return await asyncio.wrap_future(portal.start_task_soon(lambda: value(*args, **kwargs)))

            return call
        if inspect.isroutine(value):
            return lambda *args, **kwargs: portal.call(lambda: value(*args, **kwargs))
        return value if isinstance(value, _PLAIN) else _CrossLoopObject(value, portal)
