"""Who hears an event."""

from __future__ import annotations

from paddock_sdk.kernel.hooks import HookRegistry

__all__ = ["HookRegistry"]
