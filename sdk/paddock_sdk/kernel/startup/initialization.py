"""Start a session's modules, in the one order the contract fixes.

Orchestrator, context, providers, tools, hooks, then everyone's `on_session_ready`, then the fork event. Without an
orchestrator or a context manager there is no session; any other module that fails is logged, announced as an event and
left out. The caller's function loads and mounts one entry.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from paddock_sdk.contract import events
from paddock_sdk.kernel.loading import SessionReadyQueue, load_entry, module_failure_reason
from paddock_sdk.kernel.redaction import redact_secrets
from paddock_sdk.kernel.settle import safe_exception_str, settled

if TYPE_CHECKING:
    from paddock_sdk.kernel.coordinator import ModuleCoordinator

_log = logging.getLogger(__name__)

#: Load and mount one plan entry: its kind, the entry, its place in its section.
LoadEntry: TypeAlias = Callable[[str, dict[str, Any], int], Awaitable[None]]


async def initialize_session(
    config: dict[str, Any],
    coordinator: ModuleCoordinator,
    session_id: str,
    parent_id: str | None,
    load: LoadEntry | None = None,
) -> None:
    """Load and mount everything a mount plan lists.

    Raises:
        RuntimeError: the orchestrator or the context manager could not be loaded.
        ValueError: several provider entries of one module lack an `instance_id`.
        TypeError: a section of the plan is not a list, or an entry not a mapping.
    """
    initialization = _Initialization(
        config, coordinator, load or (lambda kind, entry, index: load_entry(coordinator, entry))
    )
    await initialization.load_required("orchestrator", "orchestrator")
    await initialization.load_required("context", "context manager")
    initialization.check_provider_instances()
    await initialization.load_providers()
    await initialization.load_section("tools", "tool")
    await initialization.load_section("hooks", "hook")
    await initialization.call_session_ready()
    if parent_id:
        await coordinator.hooks.emit(
            events.SESSION_FORK, {"parent": parent_id, "session_id": session_id, **session_extras(config, raw=True)}
        )


def session_extras(config: dict[str, Any], *, raw: bool) -> dict[str, Any]:
    """Return the fields that a plan's `session` section adds to the session's events: metadata, and the plan if set."""
    session = config["session"]
    extras: dict[str, Any] = {}
    if session.get("metadata"):
        extras["metadata"] = session["metadata"]
    if raw and session.get("raw"):
        extras["raw"] = redact_secrets(config)
    return extras


class _Initialization:
    def __init__(self, config: dict[str, Any], coordinator: ModuleCoordinator, load: LoadEntry) -> None:
        self._config = config
        self._coordinator = coordinator
        self._load = load

    async def load_required(self, kind: str, called: str) -> None:
        try:
            await self._load(kind, self._required_entry(kind), 0)
        except Exception as error:
            raise RuntimeError(f"Cannot initialize without {called}: {safe_exception_str(error)}") from error

    def _required_entry(self, kind: str) -> dict[str, Any]:
        session = self._config["session"]
        spec = session[kind]
        if isinstance(spec, dict):
            entry = dict(spec)
        else:
            own_section = self._config.get(kind)
            entry = {
                "module": spec,
                "source": session.get(f"{kind}_source"),
                "config": own_section.get("config") if isinstance(own_section, dict) else None,
            }
        if not isinstance(entry.get("module"), str) or not entry["module"]:
            raise ValueError(f"session.{kind} names no module")
        return entry

    def check_provider_instances(self) -> None:
        unnamed = Counter(entry["module"] for _, entry in self._entries("providers") if not entry.get("instance_id"))
        for module_id, count in unnamed.items():
            if count > 1:
                raise ValueError(
                    f"{count} provider entries for module '{module_id}' have no instance_id: at most one may omit it, "
                    "give the others one"
                )

    async def load_providers(self) -> None:
        for index, entry in self._entries("providers"):
            attempt = ProviderAttempt(self._coordinator, entry)
            try:
                await self._notify("provider.before_load", entry)
                await self._load("provider", entry, index)
                await attempt.conclude()
            except Exception as error:  # module code; a session does without one provider
                attempt.undo()
                await self._announce_failure("provider", entry, error)
                # The application's only influence here: its exception ends the initialisation.
                await self._notify("provider.load_failure", entry, error)

    async def load_section(self, section: str, kind: str) -> None:
        for index, entry in self._entries(section):
            try:
                await self._load(kind, entry, index)
            except Exception as error:  # module code; a session does without one module
                await self._announce_failure(kind, entry, error)

    async def _notify(self, capability: str, entry: dict[str, Any], *details: object) -> None:
        listener = self._coordinator.get_capability(capability)
        if listener is not None:
            # A copy, so that listeners cannot change what is loaded.
            await settled(listener(self._coordinator, copy.deepcopy(entry), *details))

    async def _announce_failure(self, kind: str, entry: dict[str, Any], error: Exception) -> None:
        module_id, message = entry["module"], safe_exception_str(error)
        _log.warning("Failed to load %s module %r: %s", kind, module_id, message, exc_info=error)
        data = {
            "module_type": kind,
            "module_id": module_id,
            "error": message,
            "reason_code": module_failure_reason(error),
        }
        if entry.get("instance_id"):
            data["instance_id"] = entry["instance_id"]
        await self._coordinator.hooks.emit(events.MODULE_LOAD_FAILED, data)

    async def call_session_ready(self) -> None:
        loader = self._coordinator.loader
        if not isinstance(loader, SessionReadyQueue):
            return
        queue = list(loader.get_on_session_ready_queue())
        loader.clear_on_session_ready_queue()
        for module_id, fn in queue:
            try:
                await settled(fn(self._coordinator))
            except Exception as error:  # module code, which is mounted and works without this
                message = safe_exception_str(error)
                _log.warning("on_session_ready of module %r failed: %s", module_id, message, exc_info=error)
                await self._coordinator.hooks.emit(
                    events.MODULE_ON_SESSION_READY_FAILED, {"module_id": module_id, "error": message}
                )

    def _entries(self, section: str) -> list[tuple[int, dict[str, Any]]]:
        """Return a section's entries that name a module, each with its place in the section."""
        entries: list[tuple[int, dict[str, Any]]] = []
        for index, entry in enumerate(self._config.get(section, ())):
            if not isinstance(entry, dict):
                raise TypeError(f"{section}[{index}] has to be a mapping, not {type(entry).__name__}")
            if entry.get("module"):
                entries.append((index, entry))
        return entries


class ProviderAttempt:
    """The state before a provider is loaded, to give it its final name afterwards or to undo a failure.

    A provider module mounts itself under its default name, the module id without "provider-". An entry with an
    `instance_id` moves it to that name and gives the default name back to its earlier holder. A module that mounts
    nothing has failed. Undoing leaves the mounted providers and the loader's ready queue as they were; cleanup
    functions stay registered, since their resources may exist.
    """

    def __init__(self, coordinator: ModuleCoordinator, entry: dict[str, Any]) -> None:
        self._coordinator = coordinator
        self._module_id: str = entry["module"]
        self._instance_id: str | None = entry.get("instance_id")
        self._providers: dict[str, Any] = coordinator.get("providers")
        self._before = dict(self._providers)
        self._loader = coordinator.loader if isinstance(coordinator.loader, SessionReadyQueue) else None
        self._ready_before = list(self._loader.get_on_session_ready_queue()) if self._loader is not None else []

    async def conclude(self) -> None:
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
            await self._coordinator.mount("providers", self._before[default_name], name=default_name)
        else:
            await self._coordinator.unmount("providers", name=default_name)
        await self._coordinator.mount("providers", provider, name=self._instance_id)

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
