"""Results of tools and hooks, and what providers, modules and sessions say of themselves."""

from __future__ import annotations

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
    "ConfigField",
    "ContextInjection",
    "HookResult",
    "ImageBlock",
    "ModelInfo",
    "ModuleInfo",
    "Pricing",
    "ProviderInfo",
    "SessionStatus",
    "TextBlock",
    "ToolResult",
]
