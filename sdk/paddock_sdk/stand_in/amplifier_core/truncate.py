"""Long texts inside data, shortened, and secrets in it, replaced; by the shorter name."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.redaction import SENSITIVE_KEYS, redact_secrets
from paddock_sdk.kernel.truncation import truncate_values

__all__ = ["SENSITIVE_KEYS", "redact_secrets", "truncate_values"]
