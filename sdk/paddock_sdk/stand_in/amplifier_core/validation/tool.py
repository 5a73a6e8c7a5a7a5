"""What a tool has to have."""

from __future__ import annotations

from paddock_sdk.validation.tool import ToolValidator

__all__ = ["ToolValidator"]
