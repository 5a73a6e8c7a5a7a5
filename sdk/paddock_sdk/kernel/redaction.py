"""Make data fit to be logged or shown: secrets hidden, by the name of their key alone, and long texts cut."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

__all__ = ["SENSITIVE_KEYS", "redact_secrets", "truncate_values"]

SENSITIVE_KEYS: Final = frozenset(
    {
        "api_key",
        "apikey",
        "api-key",
        "secret",
        "password",
        "token",
        "credential",
        "credentials",
        "private_key",
        "privatekey",
        "auth",
        "authorization",
    }
)

_REDACTED: Final = "[REDACTED]"


def redact_secrets(obj: Any, sensitive_keys: Collection[str] = SENSITIVE_KEYS) -> Any:
    """Return a copy of nested dicts and lists in which every value under a sensitive key is replaced.

    A key is compared in lower case.
    """
    if isinstance(obj, dict):
        return {
            key: _REDACTED
            if isinstance(key, str) and key.lower() in sensitive_keys
            else redact_secrets(value, sensitive_keys)
            for key, value in obj.items()
        }
    if isinstance(obj, list):
        return [redact_secrets(item, sensitive_keys) for item in obj]
    return obj


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
