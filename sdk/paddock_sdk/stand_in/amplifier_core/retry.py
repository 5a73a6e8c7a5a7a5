"""Retries with pauses that grow, by their shorter name."""

from __future__ import annotations

from paddock_sdk.kernel.retry import RetryConfig, classify_error_message, retry_with_backoff

__all__ = ["RetryConfig", "classify_error_message", "retry_with_backoff"]
