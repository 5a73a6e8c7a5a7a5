"""One attempt to load a provider: the mounted object, its final name, and undoing after a failure.

A provider module mounts itself under its default name, the module id without "provider-". An entry with an
`instance_id` moves it to that name and gives the default name back to its earlier holder. A module that mounts nothing
has failed. Undoing leaves the mounted providers and the loader's ready queue as they were; cleanup functions stay
registered, since their resources may exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock_sdk.kernel.loading import SessionReadyQueue

if TYPE_CHECKING:
    from paddock_sdk.kernel.coordinator import ModuleCoordinator

__all__ = ["ProviderAttempt"]


class ProviderAttempt:
    """The state before a provider is loaded."""

    def __init__(self, coordinator: ModuleCoordinator, entry: dict[str, Any]) -> None:
        self._module_id: str = entry["module"]
        self._instance_id: str | None = entry.get("instance_id")
        self._providers: dict[str, Any] = coordinator.get("providers")
        self._before = dict(self._providers)
        self._loader = coordinator.loader if isinstance(coordinator.loader, SessionReadyQueue) else None
        self._ready_before = list(self._loader.get_on_session_ready_queue()) if self._loader is not None else []

    def conclude(self) -> None:
        """Give the mounted provider its final name.

        Raises:
            ValueError: nothing was mounted.
        """
        mounted = [name for name, provider in self._providers.items() if self._is_new(name, provider)]
        if not mounted:
            raise ValueError(f"Provider module '{self._module_id}' mounted no provider")
        default_name = self._module_id.removeprefix("provider-")
        if self._instance_id is None or self._instance_id == default_name or default_name not in mounted:
            return
        provider = self._providers[default_name]
        if default_name in self._before:
            self._providers[default_name] = self._before[default_name]
        else:
            del self._providers[default_name]
        self._providers[self._instance_id] = provider

    def undo(self) -> None:
        """Put everything back as it was before."""
        for name, provider in list(self._providers.items()):
            if name not in self._before:
                del self._providers[name]
            elif self._is_new(name, provider):
                self._providers[name] = self._before[name]
        for name, provider in self._before.items():
            self._providers.setdefault(name, provider)
        if self._loader is not None and list(self._loader.get_on_session_ready_queue()) != self._ready_before:
            self._loader.clear_on_session_ready_queue()
            for module_id, fn in self._ready_before:
                self._loader.enqueue_on_session_ready(module_id, fn)

    def _is_new(self, name: str, provider: object) -> bool:
        return name not in self._before or self._before[name] is not provider
