"""The session's hooks: the kernel's own registry, with a bound on what answers take while they are gathered."""

from __future__ import annotations

from typing import Any

from paddock.rpc.gathering import Gathering
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.payload import Payload


class HostedHooks(HookRegistry):
    """A `HookRegistry` whose handlers live elsewhere."""

    async def emit_payload(self, event: str, payload: Payload) -> HookResult:
        if not self.has_handlers(event):
            return await super().emit_payload(event, payload)
        with Gathering(keeps_all=False):
            return await super().emit_payload(event, payload)

    async def emit_and_collect(self, event: str, data: Any, timeout: float = 1.0) -> list[dict[str, Any]]:
        with Gathering(keeps_all=True):
            return await super().emit_and_collect(event, data, timeout)
