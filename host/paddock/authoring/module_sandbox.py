"""One module in sandboxed workers, for tests that run in another thread, or on another loop, than the host does.

The host runs on a loop of its own, in a thread of its own. What a test is given answers as the module's objects do:
coroutine functions where those are, plain functions, which block, where those are. Each mounting has a worker of its
own, granted nothing; leaving ends it, and closing ends all there is.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import Any, Final, Self

import anyio.from_thread
from anyio.from_thread import BlockingPortal

from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.module_name import Kind
from paddock.authoring.provided import FetchOptions, TrialNeeds, provided
from paddock.authoring.trial import TrialConditions
from paddock.authoring.trial_context import TrialContext
from paddock.authoring.validation import validate
from paddock.authorization.authorizer import AuthorizedModule, Authorizer
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Handle
from paddock.session.resources import SessionResources
from paddock.session.runtime import SessionRuntime
from paddock.session.state.coordinator import HostedCoordinator
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.protocol.remote_object import stand_in
from paddock_sdk.validation.result import ValidationResult

# What a coordinator made for tests says of its session.
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
    """A module that is mounted, as a test sees it.

    `object` is what it mounted for its kind, the first of several, None for a hook or where there is nothing;
    `cleanup` what takes it down again, None where it asked for nothing of that kind.
    """

    object: Any
    coordinator: Any
    cleanup: Callable[[], None] | None


class ModuleSandbox:
    """A module of `kind` whose workers are started at `isolation`, by default the strongest level there is."""

    def __init__(self, folder: ModuleFolder, kind: Kind, isolation: IsolationLevel | None = None) -> None:
        self._folder = folder
        self._kind = kind
        self._isolation = isolation
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(anyio.from_thread.start_blocking_portal("asyncio"))
            self._session_resources, self._authorized = stack.enter_context(
                self._portal.wrap_async_context_manager(self._ready())
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def validate(self) -> Future[ValidationResult]:
        """Begin to validate the module, in a worker of its own, and return what will tell the outcome."""
        return self._portal.start_task_soon(self._validate)

    @contextmanager
    def mounted(self) -> Iterator[MountedModule]:
        """Have the module mounted in a worker of its own, with no configuration.

        Raises:
            PaddockError: it cannot be.
        """
        with self._portal.wrap_async_context_manager(self._mounted()) as (coordinator, marshaller):
            cleanup = _Once(self._portal, coordinator)
            try:
                yield MountedModule(
                    self._portal.call(self._object, coordinator, marshaller),
                    _CrossLoopObject(coordinator, self._portal),
                    cleanup if coordinator.has_cleanups else None,
                )
            finally:
                cleanup()

    async def _validate(self) -> ValidationResult:
        environ = dict(os.environ)
        authorizer = await Authorizer.at_work(self._folder.root, environ, None)
        trial_context = TrialContext(authorizer, FetchOptions(environ), TrialConditions(environ, self._isolation), {})
        return await validate(trial_context, self._folder, self._kind)

    @asynccontextmanager
    async def _ready(self) -> AsyncIterator[tuple[SessionResources, AuthorizedModule]]:
        environ = dict(os.environ)
        root = self._folder.root
        authorizer = await Authorizer.at_work(root, environ, None)
        async with (
            provided(self._folder, authorizer.policy, FetchOptions(environ), TrialNeeds()) as resolution,
            SessionResources(working_dir=root, environ=environ) as session_resources,
        ):
            written = {"module": resolution.module_id, "source": str(root)}
            entry = ModuleEntry.read(written, EntryPlace(self._kind, "", root))
            authorization = await authorizer.authorize_call(entry, resolution, self._isolation)
            await session_resources.plan_sandboxes(authorization)
            yield session_resources, authorization.modules[0]

    @asynccontextmanager
    async def _mounted(self) -> AsyncIterator[tuple[_Coordinator, Marshaller]]:
        async with SessionRuntime(self._session_resources) as session_runtime:
            session = SimpleNamespace(session_id="test-session", parent_id=None, config=dict(_CONFIG))
            coordinator = _Coordinator(session, session_runtime.marshaller, session_runtime.mirrors)
            session_runtime.bind(coordinator)
            await session_runtime.start(self._authorized)
            yield coordinator, session_runtime.marshaller

    def _object(self, coordinator: HostedCoordinator, marshaller: Marshaller) -> Any:
        """Return a stand-in for what was mounted that calls it with what it is given, also where a session would not.

        An orchestrator of a session finds what it works with in its worker; one under test is handed it.
        """
        point = _POINTS.get(self._kind)
        found = None if point is None else coordinator.get(point)
        if isinstance(found, dict):
            found = next(iter(found.values()), None)
        if found is None:
            return None
        handle = marshaller.handle_of(found)
        assert isinstance(handle, Handle)  # nothing but the module mounts anything here
        return stand_in(handle.description(marshaller.codec), 0, _Caller(self._portal, marshaller, handle))


class _Coordinator(HostedCoordinator):
    """Notes whether the module wants anything done at its end."""

    has_cleanups: bool = False

    def register_cleanup(self, fn: Any) -> None:
        super().register_cleanup(fn)
        self.has_cleanups = True


class _Once:
    """Runs a coordinator's cleanups, the first time it is called."""

    def __init__(self, portal: BlockingPortal, coordinator: HostedCoordinator) -> None:
        self._portal = portal
        self._coordinator: HostedCoordinator | None = coordinator

    def __call__(self) -> None:
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            self._portal.call(coordinator.cleanup)


class _Caller:
    """The way from a test to an object of the module's."""

    def __init__(self, portal: BlockingPortal, marshaller: Marshaller, handle: Handle) -> None:
        self._portal = portal
        self._marshaller = marshaller
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
        """Tell nothing beside the arguments: a test has no turn around it."""
        return ()

    # Values are encoded and decoded on the host's loop alone: here, on whichever asks for what these return.

    async def _items(self, method: int, value: object) -> AsyncIterator[Any]:
        message = self._marshaller.encode(value, share=True)
        async for item in self._marshaller.router.host_calls.stream(self._handle, method, message):
            yield self._marshaller.decode(item)

    async def _call(self, method: int, value: object) -> Any:
        message = self._marshaller.encode(value, share=True)  # what a test hands over, it means to
        return await self._marshaller.router.host_calls.call_value(self._handle, method, message)


class _CrossLoopObject:
    """An object of the host's loop, for another: what is called on it is called there."""

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
