"""What a context has to have."""

from __future__ import annotations

from paddock_sdk.validation.context import ContextValidator

__all__ = ["ContextValidator"]
