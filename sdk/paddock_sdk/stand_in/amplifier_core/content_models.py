"""Typed content for streaming interfaces."""

from __future__ import annotations

from paddock_sdk.contract.content_models import (
    ContentBlock,
    ContentBlockType,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultContent,
)

__all__ = ["ContentBlock", "ContentBlockType", "TextContent", "ThinkingContent", "ToolCallContent", "ToolResultContent"]
