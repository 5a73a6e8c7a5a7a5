"""Long texts inside data, shortened."""

from __future__ import annotations

from paddock_sdk.kernel.truncation import truncate_values

__all__ = ["truncate_values"]
