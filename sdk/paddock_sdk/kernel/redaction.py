"""Take secrets out of configuration before it is shown: by the name of the key, nothing cleverer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

__all__ = ["SENSITIVE_KEYS", "redact_secrets"]

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
