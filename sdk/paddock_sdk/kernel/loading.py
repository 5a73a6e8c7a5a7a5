"""The interface between a session and the loader of its modules.

A loader turns a module's id into a closure that mounts it; the session calls the closure. The reason of a failed load
is reduced here to one of a few words, for events and statistics; the text for people is in the exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from paddock_sdk.contract.module_sources import ModuleLoadError
from paddock_sdk.contract.module_sources import ModuleNotFoundError as SourceNotFoundError
from paddock_sdk.kernel.mounts import RESOLVER_POINT

if TYPE_CHECKING:
    from paddock_sdk.kernel.coordinator import ModuleCoordinator

TYPE_TO_MOUNT_POINT: Final = {
    "orchestrator": "orchestrator",
    "provider": "providers",
    "tool": "tools",
    "hook": "hooks",
    "context": "context",
    "resolver": RESOLVER_POINT,
}

MODULE_FAILURE_REASONS: Final = frozenset(
    {
        "invalid_package_layout",
        "missing_source",
        "invalid_entry_point",
        "invalid_module_metadata",
        "validation_failed",
        "unknown",
    }
)

#: Mounts a module and returns None, or what is to be called at the end of the session.
Mount: TypeAlias = "Callable[[ModuleCoordinator], Awaitable[Any]]"

#: A module's `on_session_ready`.
ReadyCallback: TypeAlias = "Callable[[ModuleCoordinator], Awaitable[Any]]"


class ModuleLoading(Protocol):
    """Loads modules for a session."""

    async def load(
        self,
        module_id: str,
        config: dict[str, Any] | None = None,
        source_hint: Any = None,
        coordinator: ModuleCoordinator | None = None,
    ) -> Mount:
        """Return the closure that mounts the module."""
        ...


@runtime_checkable
class SessionReadyQueue(Protocol):
    """A loader that also keeps, in load order, the functions of modules to call when everything is mounted."""

    def get_on_session_ready_queue(self) -> list[tuple[str, ReadyCallback]]: ...

    def enqueue_on_session_ready(self, module_id: str, fn: ReadyCallback) -> None: ...

    def clear_on_session_ready_queue(self) -> None: ...


class ReadyQueue:
    """A `SessionReadyQueue`, to inherit from or to have."""

    def __init__(self) -> None:
        self._ready_queue: list[tuple[str, ReadyCallback]] = []

    def get_on_session_ready_queue(self) -> list[tuple[str, ReadyCallback]]:
        """Return the `on_session_ready` of each mounted module that has one, in the order they were mounted."""
        return list(self._ready_queue)

    def enqueue_on_session_ready(self, module_id: str, fn: ReadyCallback) -> None:
        """Add one at the end."""
        self._ready_queue.append((module_id, fn))

    def clear_on_session_ready_queue(self) -> None:
        """Forget them all."""
        self._ready_queue.clear()


class ModuleValidationError(ModuleLoadError):
    """Raised when a module does not keep to the contract of its kind."""

    def __init__(self, message: str, *, reason_code: str = "validation_failed") -> None:
        super().__init__(message)
        self.reason_code = reason_code


async def load_entry(coordinator: ModuleCoordinator, entry: dict[str, Any]) -> None:
    """Load and mount the module of one plan entry with the coordinator's loader.

    The return value of its mount function becomes a cleanup function if it can be called.
    """
    mount = await coordinator.loader.load(
        entry["module"],
        entry.get("config") or {},
        source_hint=entry.get("source"),
        coordinator=coordinator,
    )
    cleanup = await mount(coordinator)
    if cleanup:
        coordinator.register_cleanup(cleanup)


def module_failure_reason(exc: BaseException) -> str:
    """Return why a module could not be loaded, one of `MODULE_FAILURE_REASONS`; causes count, however far down."""
    cause: BaseException | None = exc
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        code = getattr(cause, "reason_code", None)
        if isinstance(code, str) and code in MODULE_FAILURE_REASONS:
            return code
        if isinstance(cause, SourceNotFoundError):
            return "missing_source"
        cause = cause.__cause__
    return "unknown"
