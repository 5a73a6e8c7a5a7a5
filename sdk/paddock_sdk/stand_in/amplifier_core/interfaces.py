"""What each kind of module offers."""

from __future__ import annotations

from paddock_sdk.contract.interfaces import (
    ApprovalProvider,
    ApprovalRequest,
    ApprovalResponse,
    ContextManager,
    HookHandler,
    Orchestrator,
    Provider,
    Tool,
)

__all__ = [
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalResponse",
    "ContextManager",
    "HookHandler",
    "Orchestrator",
    "Provider",
    "Tool",
]
