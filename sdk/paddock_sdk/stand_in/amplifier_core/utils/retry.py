"""Retries with pauses that grow."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.llm_errors import LLMError
from paddock_sdk.kernel.retry import RetryConfig, classify_error_message, retry_with_backoff

__all__ = ["LLMError", "RetryConfig", "classify_error_message", "retry_with_backoff"]
