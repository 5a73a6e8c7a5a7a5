"""Retries with pauses that grow."""

from __future__ import annotations

from paddock_sdk.contract.llm_errors import LLMError
from paddock_sdk.kernel.retry import RetryConfig, classify_error_message, retry_with_backoff

__all__ = [
    "LLMError",
    "RetryConfig",
    "classify_error_message",
    "retry_with_backoff",
]
