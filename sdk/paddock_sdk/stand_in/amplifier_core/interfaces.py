"""What each kind of module offers, and what it is given and gives back."""

# Written from the table in tests/sdk/stand_in/reexports.py.

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
    "ContextManager",
    "HookHandler",
    "Orchestrator",
    "Provider",
    "Tool",
    "ChatRequest",
    "ChatResponse",
    "ToolCall",
    "HookResult",
    "ModelInfo",
    "ProviderInfo",
    "ToolResult",
]
