"""Retries with pauses that grow, by their shorter name."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.retry import RetryConfig, classify_error_message, retry_with_backoff

__all__ = ["RetryConfig", "classify_error_message", "retry_with_backoff"]
