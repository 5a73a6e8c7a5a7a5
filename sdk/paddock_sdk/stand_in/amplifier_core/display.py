"""How the kernel shows a message to a person."""

from __future__ import annotations

from paddock_sdk.contract.display import DisplaySystem

__all__ = ["DisplaySystem"]
