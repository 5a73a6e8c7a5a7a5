"""Typed content for streaming interfaces, as plain dataclasses.

`to_dict` returns the fields that may be shown or stored; `raw`, the provider's own object, never leaves the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["ContentBlock", "ContentBlockType", "TextContent", "ThinkingContent", "ToolCallContent", "ToolResultContent"]


# Not StrEnum: str() and f-strings of a member show the member, as code that logs it expects.
class ContentBlockType(str, Enum):  # noqa: UP042
    """The kinds of streamed content."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


@dataclass
class ContentBlock:
    """One piece of content; `type` and `raw` come first in every subclass too."""

    type: ContentBlockType
    raw: Any | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields fit for showing and storing."""
        return {"type": self.type.value}


@dataclass
class TextContent(ContentBlock):
    """Text."""

    type: ContentBlockType = ContentBlockType.TEXT
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "text": self.text}


@dataclass
class ThinkingContent(ContentBlock):
    """A model's visible reasoning."""

    type: ContentBlockType = ContentBlockType.THINKING
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "text": self.text}


@dataclass
class ToolCallContent(ContentBlock):
    """A model's wish to run a tool."""

    type: ContentBlockType = ContentBlockType.TOOL_CALL
    id: str = ""
    name: str = ""
    arguments: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass
class ToolResultContent(ContentBlock):
    """A tool's answer."""

    type: ContentBlockType = ContentBlockType.TOOL_RESULT
    tool_call_id: str = ""
    output: Any | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        answer = {**super().to_dict(), "tool_call_id": self.tool_call_id, "output": self.output}
        return {**answer, "error": self.error} if self.error else answer
