"""Shorten long texts inside data, so that it can be logged or shown."""

from __future__ import annotations

from typing import Any

__all__ = ["truncate_values"]


def truncate_values(obj: Any, max_length: int = 180) -> Any:
    """Return a copy of nested dicts and lists with texts cut to `max_length` characters and a note of how many went."""
    if isinstance(obj, str):
        left_out = len(obj) - max_length
        return f"{obj[:max_length]}... (truncated {left_out} chars)" if left_out > 0 else obj
    if isinstance(obj, dict):
        return {key: truncate_values(value, max_length) for key, value in obj.items()}
    if isinstance(obj, list):
        return [truncate_values(value, max_length) for value in obj]
    return obj
