"""What each kind of module offers, and what it is given and gives back."""

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
from paddock_sdk.contract.message_models import ChatRequest, ChatResponse, ToolCall
from paddock_sdk.contract.models import HookResult, ModelInfo, ProviderInfo, ToolResult

__all__ = [
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalResponse",
    "ChatRequest",
    "ChatResponse",
    "ContextManager",
    "HookHandler",
    "HookResult",
    "ModelInfo",
    "Orchestrator",
    "Provider",
    "ProviderInfo",
    "Tool",
    "ToolCall",
    "ToolResult",
]
