"""How the kernel asks a person for permission."""

from __future__ import annotations

from paddock_sdk.contract.approval import ApprovalSystem, ApprovalTimeoutError

__all__ = ["ApprovalSystem", "ApprovalTimeoutError"]
