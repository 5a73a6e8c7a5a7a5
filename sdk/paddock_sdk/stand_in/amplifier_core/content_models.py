"""Typed content for streaming interfaces."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.content_models import (
    ContentBlock,
    ContentBlockType,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultContent,
)

__all__ = ["ContentBlock", "ContentBlockType", "TextContent", "ThinkingContent", "ToolCallContent", "ToolResultContent"]
