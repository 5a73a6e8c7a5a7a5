"""The session's hooks: the kernel's own registry, with a bound on what answers take while they are gathered."""

from __future__ import annotations

from typing import Any

from paddock.rpc.gathering import Gathering
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.hooks import HandlerRegistration, HookRegistry
from paddock_sdk.kernel.payload import Payload


class HostedHooks(HookRegistry):
    """A `HookRegistry` whose handlers live elsewhere."""

    async def emit_payload(self, event: str, payload: Payload) -> HookResult:
        if not self.has_handlers(event):
            return await super().emit_payload(event, payload)
        with Gathering(keeps_all=False):
            return await super().emit_payload(event, payload)

    def handlers_of(self, event: str) -> tuple[HandlerRegistration, ...]:
        """Return the handlers of an event, in the order in which they are asked."""
        return self._handlers.get(event, ())

    def stamped(self, payload: Payload) -> Payload:
        """Return an event's data with the default fields and the time, as handlers are given it."""
        return self._stamped(payload)

    async def ask(self, event: str, payload: Payload, registrations: tuple[HandlerRegistration, ...]) -> HookResult:
        """Ask handlers about an event whose data is stamped, and return what they come to."""
        with Gathering(keeps_all=False):
            return await self._ask_all(event, payload, registrations)

    async def emit_and_collect(self, event: str, data: Any, timeout: float = 1.0) -> list[dict[str, Any]]:
        with Gathering(keeps_all=True):
            return await super().emit_and_collect(event, data, timeout)
