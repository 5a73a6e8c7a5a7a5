"""How a running session is asked to stop."""

from __future__ import annotations

from paddock_sdk.kernel.cancellation import CancellationState, CancellationToken

__all__ = ["CancellationState", "CancellationToken"]
