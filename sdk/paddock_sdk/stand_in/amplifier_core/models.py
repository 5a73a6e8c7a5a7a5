"""Results of tools and hooks, and what providers, modules and sessions say of themselves."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.message_models import ImageBlock, TextBlock
from paddock_sdk.contract.models import (
    ConfigField,
    ContextInjection,
    HookResult,
    ModelInfo,
    ModuleInfo,
    Pricing,
    ProviderInfo,
    SessionStatus,
    ToolResult,
    _sanitize_for_llm,  # noqa: F401 - private, yet imported by name
)

__all__ = [
    "ImageBlock",
    "TextBlock",
    "ConfigField",
    "ContextInjection",
    "HookResult",
    "ModelInfo",
    "ModuleInfo",
    "Pricing",
    "ProviderInfo",
    "SessionStatus",
    "ToolResult",
]
