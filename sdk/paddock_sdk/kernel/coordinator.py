"""A module's access to its session: mount points, hooks, capabilities, channels, cleanups, state.

Everything takes effect when it is called, also the awaitable methods. Modules may attach attributes of their own. An
observer, if there is one, is called after every change that a module can make; its exceptions reach the module. The
coordinator knows neither sessions (beyond their id, parent and configuration) nor where modules live.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol

from paddock_sdk.kernel.cancellation import CancellationToken
from paddock_sdk.kernel.hook_result import process_hook_result
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.mounts import MULTI_POINTS, SINGLE_POINTS, MountObserver, MountPoints
from paddock_sdk.kernel.settle import CancelWatch, settled

if TYPE_CHECKING:
    from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
    from paddock_sdk.contract.boundary_errors import OverLimitError
    from paddock_sdk.contract.models import ContextInjection, HookResult

_log = logging.getLogger(__name__)


class CoordinatorObserver(MountObserver, Protocol):
    """Receives modules' changes of a coordinator."""

    def capability(self, name: str, value: Any) -> None: ...

    def attribute(self, name: str, value: Any) -> None: ...

    def attribute_deleted(self, name: str) -> None: ...

    def contributor(self, channel: str, name: str, callback: Any) -> None: ...

    def cleanup(self, fn: Callable[[], Any]) -> None: ...


class _CompletedAwaitable(Coroutine[Any, Any, tuple[()]]):
    """The return value of a function that has done its work already but may still be awaited: an empty tuple.

    Unlike a native coroutine it gives no warning when it is not awaited, and it can be awaited any number of times. It
    is a coroutine as far as asyncio is concerned, so `create_task` and `gather` accept it, too.
    """

    __slots__ = ()

    def __await__(self) -> _CompletedAwaitable:
        return self

    def __iter__(self) -> _CompletedAwaitable:
        return self

    def __next__(self) -> NoReturn:
        raise StopIteration(())

    def send(self, value: Any, /) -> NoReturn:
        raise StopIteration(())

    def throw(self, typ: Any, val: Any = None, tb: Any = None, /) -> NoReturn:
        raise typ if val is None else val

    def close(self) -> None:
        return


_DONE: Final = _CompletedAwaitable()


class ModuleCoordinator:
    """The way from a module to its session.

    A subclass declares its own attributes in its body (an annotation will do); any other attribute that is set counts
    as a module's and is reported to the observer.
    """

    _own_names: ClassVar[frozenset[str]]

    _observer: CoordinatorObserver | None
    _session: Any
    _mount_points: MountPoints
    _hooks: HookRegistry
    _cancellation: CancellationToken
    _capabilities: dict[str, Any]
    _channels: dict[str, list[dict[str, Any]]]
    _cleanups: list[Callable[[], Any]]
    # With values here, too: mocks made from this class get the same attributes.
    _current_turn_injections: int = 0
    session_state: dict[str, Any] = None  # type: ignore[assignment]
    loader: Any = None
    approval_system: ApprovalSystem | None = None
    display_system: DisplaySystem | None = None

    def __init__(
        self,
        session: Any = None,
        approval_system: ApprovalSystem | None = None,
        display_system: DisplaySystem | None = None,
    ) -> None:
        self._observer = None
        self._session = session if session is not None else SimpleNamespace(session_id="", parent_id=None, config={})
        self._hooks = self._make_hooks()
        self._cancellation = self._make_cancellation()
        self._mount_points = MountPoints(self._hooks)
        self._capabilities = {}
        self._channels = {}
        self._cleanups = []
        self._current_turn_injections = 0
        self.session_state = {}
        self.loader = None
        self.approval_system = approval_system
        self.display_system = display_system

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._own_names = _names_of(cls)

    def _make_hooks(self) -> HookRegistry:
        return HookRegistry()

    def _make_cancellation(self) -> CancellationToken:
        return CancellationToken()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name not in self._own_names and self._observer is not None:
            self._observer.attribute(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name not in self._own_names and self._observer is not None:
            self._observer.attribute_deleted(name)

    @property
    def observer(self) -> CoordinatorObserver | None:
        return self._observer

    @observer.setter
    def observer(self, observer: CoordinatorObserver | None) -> None:
        self._observer = observer
        self._mount_points.observer = observer

    # The session.

    @property
    def session_id(self) -> str:
        session_id: str = self._session.session_id
        return session_id

    @property
    def parent_id(self) -> str | None:
        parent_id: str | None = self._session.parent_id
        return parent_id

    @property
    def config(self) -> dict[str, Any]:
        """The very dict the session was given: changes to it are seen."""
        config: dict[str, Any] = self._session.config
        return config

    @property
    def session(self) -> Any:
        return self._session

    def bind_session(self, session: Any) -> None:
        """Replace the placeholder by the real session."""
        self._session = session

    @property
    def hooks(self) -> HookRegistry:
        return self._hooks

    @property
    def cancellation(self) -> CancellationToken:
        return self._cancellation

    @property
    def channels(self) -> dict[str, list[dict[str, Any]]]:
        return self._channels

    @property
    def injection_budget_per_turn(self) -> int | None:
        """The number of tokens that hooks may inject in a turn without a warning; None without a limit."""
        return self._session_setting("injection_budget_per_turn")

    @property
    def injection_size_limit(self) -> int | None:
        """The maximum of characters in one injection; None without a limit."""
        return self._session_setting("injection_size_limit")

    def _session_setting(self, name: str) -> int | None:
        settings = self.config.get("session")
        return settings.get(name) if isinstance(settings, dict) else None

    # Mount points.

    @property
    def mount_points(self) -> MountPoints:
        return self._mount_points

    @mount_points.setter
    def mount_points(self, objects: Mapping[str, Any]) -> None:
        if objects is not self._mount_points:
            self._mount_points.replace_all(objects)

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Awaitable[Any]:
        """Mount an object, now; the returned value need not be awaited.

        Raises:
            ValueError: the mount point is unknown or takes no objects, or the object has no usable name.
            TypeError: the name is not text.
        """
        if mount_point == "session" and name in ("orchestrator", "context"):
            # How modules written to the first edition of the contract name the same two places.
            mount_point = name
        if mount_point in SINGLE_POINTS:
            self._mount_points[mount_point] = module
        elif mount_point in MULTI_POINTS:
            if name is None:
                try:
                    name = module.name
                except AttributeError:
                    raise ValueError(f"Name required for '{mount_point}': the object has no attribute 'name'") from None
            if not isinstance(name, str):
                raise TypeError(f"a name at '{mount_point}' is text, not {type(name).__name__}")
            self._mount_points[mount_point][name] = module
        elif mount_point == "hooks":
            raise ValueError("Hooks should be registered with coordinator.hooks; nothing is mounted at 'hooks'")
        else:
            raise ValueError(f"Unknown mount point: {mount_point}")
        return _DONE

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """Return the mounted object or None, or without a name the live dict of a point that has several.

        Raises:
            ValueError: the mount point is unknown.
        """
        self._known(mount_point)
        mounted = self._mount_points[mount_point]
        return mounted.get(name) if mount_point in MULTI_POINTS and name is not None else mounted

    def get_mounted(self, mount_point: str) -> Any:
        """The same as `get`, with an empty dict for nothing: the name in the contract's first edition."""
        return self.get(mount_point) or {}

    def unmount(self, mount_point: str, name: str | None = None) -> Awaitable[Any]:
        """Unmount an object, now; the returned value need not be awaited. An unused name is ignored.

        Raises:
            ValueError: the mount point is unknown, or the name that it needs is missing.
        """
        self._known(mount_point)
        if mount_point in SINGLE_POINTS:
            self._mount_points[mount_point] = None
        elif mount_point in MULTI_POINTS:
            if name is None:
                raise ValueError(f"Name required to unmount from '{mount_point}'")
            self._mount_points[mount_point].pop(name, None)
        return _DONE

    def _known(self, mount_point: str) -> None:
        if mount_point not in self._mount_points:
            raise ValueError(f"Unknown mount point: {mount_point}")

    # Values that modules leave for each other.

    def register_capability(self, name: str, value: Any) -> None:
        """Offer an object under a name; the last one offered counts."""
        self._capabilities[name] = value
        if self._observer is not None:
            self._observer.capability(name, value)

    def get_capability(self, name: str) -> Any:
        """Return the object offered under a name, or None."""
        return self._capabilities.get(name)

    def register_contributor(self, channel: str, name: str, callback: Any) -> None:
        """Add a function that `collect_contributions` calls."""
        self._channels.setdefault(channel, []).append({"name": name, "callback": callback})
        if self._observer is not None:
            self._observer.contributor(channel, name, callback)

    async def collect_contributions(self, channel: str) -> list[Any]:
        """Return the contributions to a channel that are not None, in the order their functions were registered."""
        return await collect_contributions(self._channels, channel)

    # Turn and end.

    async def process_hook_result(self, result: HookResult, event: str, hook_name: str = "unknown") -> HookResult:
        """Act on a hook's result: write its injection, show its message, ask for approval.

        Raises:
            ValueError: an injection exceeds the session's size limit.
        """
        return await process_hook_result(self, result, event, hook_name)

    def _leave_out(self, item: ContextInjection, error: OverLimitError) -> None:
        """Report that the conversation has no room for a hook's injection."""
        _log.warning("What hook %r injects on %r is left out: %s", item.hook_name, item.event, error)

    async def request_cancel(self, immediate: bool = False) -> None:
        """Set the cancellation token; nothing is emitted and no callback runs."""
        if immediate:
            self._cancellation.request_immediate()
        else:
            self._cancellation.request_graceful()

    def reset_turn(self) -> None:
        """Start counting injections again."""
        self._current_turn_injections = 0

    def register_cleanup(self, fn: Any) -> None:
        """Add a function for the end of the session; an object that cannot be called is ignored."""
        if not callable(fn):
            return
        self._cleanups.append(fn)
        if self._observer is not None:
            self._observer.cleanup(fn)

    async def cleanup(self) -> None:
        """Run the registered functions, the latest first; all of them run, even after errors.

        Exceptions are logged. The first CancelledError, KeyboardInterrupt or SystemExit is raised at the end, whether a
        function raised it or this task was cancelled.
        """
        unstoppable: BaseException | None = None
        for fn in reversed(list(self._cleanups)):
            try:
                await settled(fn())
            except Exception as error:  # module code; every cleanup has to run
                _log.warning("A cleanup function failed", exc_info=error)
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
                unstoppable = unstoppable or error
        if unstoppable is not None:
            raise unstoppable

    def to_dict(self) -> dict[str, Any]:
        """Return the names of mounted and offered objects, and whether single ones are present, for display."""
        return {
            "tools": list(self._mount_points["tools"]),
            "providers": list(self._mount_points["providers"]),
            "has_orchestrator": self._mount_points["orchestrator"] is not None,
            "has_context": self._mount_points["context"] is not None,
            "capabilities": list(self._capabilities),
            "has_approval_provider": self.approval_system is not None,
            "has_display_service": self.display_system is not None,
        }


def _names_of(cls: type) -> frozenset[str]:
    annotated = {name for base in cls.__mro__ if base is not object for name in inspect.get_annotations(base)}
    return frozenset(annotated.union(dir(cls)))


ModuleCoordinator._own_names = _names_of(ModuleCoordinator)


async def collect_contributions(channels: Mapping[str, Sequence[Mapping[str, Any]]], channel: str) -> list[Any]:
    """Return the contributions to a channel that are not None; an unknown channel has none.

    They are asked in the order they registered. A contributor that fails is logged and left out. One that raises
    `CancelledError` ends the asking, and the contributions so far are returned. A cancellation of the asking task
    itself propagates.
    """
    watch = CancelWatch()
    contributions: list[Any] = []
    for contributor in list(channels.get(channel, ())):
        try:
            contribution = await settled(contributor["callback"]())
        except asyncio.CancelledError:
            if watch.cancelled:
                raise
            _log.warning("Contributor %r cancelled the collection of %r", contributor["name"], channel)
            break
        except Exception as error:  # module code; one contributor must not cost the others
            _log.warning("Contributor %r to %r failed and was left out", contributor["name"], channel, exc_info=error)
            continue
        if contribution is not None:
            contributions.append(contribution)
    return contributions
