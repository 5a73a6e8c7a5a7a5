"""Leave secrets out of what is logged, judged by the names they go under.

Works on copies. A secret inside a longer text, such as a command line, has no name to be known by and is not found.
"""

from __future__ import annotations

import re
from typing import Any

REDACTED = "[REDACTED]"

# Whole words of a key: `api_key`, `X-Api-Key`, `clientSecret`; but `max_tokens` and `token_count` are numbers to keep.
_WORDS = re.compile(
    r"(^|_)(api_?keys?|access_?key|private_?key|secret_?key|session_?key|secrets?|passwords?|passwd|passphrase|pwd|"
    r"token|auth|authorization|credentials?|cookies?)$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret(key: str) -> bool:
    """Return whether a value under this key is to be left out."""
    return _WORDS.search(_CAMEL.sub("_", key).lower().replace("-", "_").replace(" ", "_")) is not None


def without_secrets(value: Any) -> Any:
    """Return a copy in which the values of secret keys are replaced."""
    if isinstance(value, dict):
        return {
            key: REDACTED if is_secret(str(key)) and item is not None else without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value
