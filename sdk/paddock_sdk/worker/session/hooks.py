"""The hook registry as a module sees it: its own handlers, everybody's events.

Handlers are registered with the host, which has committed a registration when `register` returns. An event without any
handler is answered here, with the copies the contract promises and without asking the host; the mirror knows which
events have handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paddock_sdk.kernel.hooks import HookRegistry, correlated
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.driver import Driver

if TYPE_CHECKING:
    from paddock_sdk.contract.models import HookResult


class RemoteHookRegistry(HookRegistry):
    """A `HookRegistry` whose handlers are kept by the host."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver
        self._heard: set[str] = set()

    def register(self, event: str, handler: Any, priority: int = 0, name: str | None = None) -> Callable[[], None]:
        """Register with the host; it is in force when this returns."""
        if not isinstance(priority, int):
            raise TypeError(f"a handler's priority is an integer, not {type(priority).__name__}")
        if not callable(handler):
            handler = _failing(handler)
        registration = self._driver.call_sync(0, HostMethod.REGISTER, [event, int(priority), name, handler])

        def unregister() -> None:
            self._driver.call_sync(0, HostMethod.UNREGISTER, [registration])

        return unregister

    def unregister(self, name: str) -> None:
        """Remove the most recent registration under `name`."""
        self._driver.call_sync(0, HostMethod.UNREGISTER_NAME, [name])

    def set_default_fields(self, **fields: Any) -> None:
        """Set fields that every emitted event with handlers carries."""
        self._driver.call_sync(0, HostMethod.SET_DEFAULT_FIELDS, [Payload.of(fields).shared])

    def list_handlers(self, event: str | None = None) -> dict[str, list[str]]:
        """Return the names of the handlers, as the host knows them now."""
        listed: dict[str, list[str]] = self._driver.call_sync(0, HostMethod.LIST_HANDLERS, [event])
        return listed

    def has_handlers(self, event: str) -> bool:
        """Whether any handler is registered for `event`."""
        return event in self._heard

    async def emit_payload(self, event: str, payload: Payload) -> HookResult:
        """Let the host run the handlers; answer here when there are none."""
        if event not in self._heard:
            return await super().emit_payload(event, payload)
        # Here: the open call belongs to the emitter's task, which only this process knows.
        payload = correlated(event, payload)
        result: HookResult = await self._driver.call(0, HostMethod.EMIT, [event, payload.shared])
        return result

    async def emit_and_collect(self, event: str, data: Any, timeout: float = 1.0) -> list[dict[str, Any]]:
        """Collect the data that handlers answer with."""
        payload = Payload.of(data)
        if event not in self._heard:
            return []
        collected: list[dict[str, Any]] = await self._driver.call(
            0, HostMethod.EMIT_AND_COLLECT, [event, payload.shared, float(timeout)]
        )
        return collected

    def hear(self, event: str, is_heard: bool) -> None:
        """Record the host's report on whether `event` has handlers."""
        if is_heard:
            self._heard.add(event)
        else:
            self._heard.discard(event)


def _failing(handler: Any) -> Callable[[str, Any], None]:
    """Return a handler for an object that cannot be called; it fails when the event happens, as that would."""

    def fail(event: str, data: Any) -> None:
        raise TypeError(f"a {type(handler).__name__} was registered as a handler, and cannot be called")

    return fail
