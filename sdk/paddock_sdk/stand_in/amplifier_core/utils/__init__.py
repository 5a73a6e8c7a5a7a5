"""Small things that modules share: retries, and data made fit to be shown."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.redaction import SENSITIVE_KEYS, redact_secrets
from paddock_sdk.kernel.retry import RetryConfig, classify_error_message, retry_with_backoff
from paddock_sdk.kernel.truncation import truncate_values

__all__ = [
    "SENSITIVE_KEYS",
    "redact_secrets",
    "RetryConfig",
    "classify_error_message",
    "retry_with_backoff",
    "truncate_values",
]
