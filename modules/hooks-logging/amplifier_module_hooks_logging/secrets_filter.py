"""Leave secrets out of the log: found by their names, and by their form inside of texts.

It works on copies. It knows the common forms of keys, and values assigned to the name of a secret; a secret with
neither name nor form is not found. Each search takes time in proportion to the text: the patterns never backtrack.
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

_KEYS = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:\s{0,4}(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{0,200})*+[A-Za-z0-9+/=\s\\]*+"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
    r"|(?<![A-Za-z0-9])(?:(?:AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+"
    r"|glpat-[A-Za-z0-9_-]{20,}+|sk-[A-Za-z0-9_-]{20,}+|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+|xox[a-z]-[A-Za-z0-9-]{10,}+"
    r"|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{30,}+|npm_[A-Za-z0-9]{36}"
    r"|eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?)"
)
_ASSIGNED = re.compile(
    r"((?:api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|secret|password|passwd|passphrase|token)"
    r"""\\?["']?\s{0,3}[:=]\s{0,3}|(?<![A-Za-z])(?:bearer|basic)\s{1,3}(?=[A-Za-z._~+/=-]{0,64}\d))"""
    r"""(\\?"[^"\n]++|'[^'\n]++|[^\s"'`,;&|<>(){}\[\]]{4,}+)""",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"""(://[^\s/:@"']{0,64}:)[^\s/@"']{1,256}(?=@)""")


def is_secret(key: str) -> bool:
    """Return whether a value under this key must be left out."""
    return _WORDS.search(_CAMEL.sub("_", key).lower().replace("-", "_").replace(" ", "_")) is not None


def without_secrets(value: Any) -> Any:
    """Return a copy with the values of secret keys, and texts that look like secrets, replaced."""
    if isinstance(value, str):
        text = _KEYS.sub(REDACTED, value)
        if "=" in text or ":" in text or "earer" in text or "asic" in text:
            text = _ASSIGNED.sub(_hidden, text)
        return _IN_ADDRESS.sub(rf"\1{REDACTED}", text) if "://" in text else text
    if isinstance(value, dict):
        return {
            key: REDACTED if is_secret(str(key)) and item is not None else without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def _hidden(match: re.Match[str]) -> str:
    """Return an assignment without its value; quotes stay, so that a reader sees where it ended."""
    quoted = re.match(r"""\\?["']""", match[2])
    opening = quoted[0] if quoted else ""
    closing = "\\" if opening.startswith("\\") and match[2].endswith("\\") else ""
    return f"{match[1]}{opening}{REDACTED}{closing}"
