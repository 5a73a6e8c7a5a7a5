"""Call a provider's service again after failures that may pass, with growing pauses.

Only errors marked as retryable are retried. Every other error, and the last one, is raised to the caller at once.
"""

from __future__ import annotations

import asyncio
import math
import random
import warnings
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from paddock_sdk.contract.llm_errors import (
    AccessDeniedError,
    AuthenticationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    NotFoundError,
    ProviderUnavailableError,
    RateLimitError,
)

__all__ = ["RetryConfig", "classify_error_message", "retry_with_backoff"]

_T = TypeVar("_T")
OnRetry = Callable[[int, float, LLMError], Awaitable[object]]
"""Awaited before each pause with the number of the failed attempt, from 1, the pause in seconds, and the error."""

_INITIAL_DELAY: Final = 1.0
_BACKOFF_FACTOR: Final = 2.0
_JITTER: Final = 0.2  # the property's value where jitter is on; the pause itself varies by half

_BY_STATUS: Final[dict[int, type[LLMError]]] = {
    401: AuthenticationError,
    403: AccessDeniedError,
    404: NotFoundError,
    413: ContextLengthError,
    429: RateLimitError,
}
_BY_WORDS: Final[tuple[tuple[tuple[str, ...], type[LLMError]], ...]] = (
    (("context length", "too many tokens", "maximum context"), ContextLengthError),
    (("rate limit", "too many requests"), RateLimitError),
    (("authentication", "api key", "unauthorized"), AuthenticationError),
    (("not found",), NotFoundError),
    (("content filter", "safety", "blocked"), ContentFilterError),
)
_CATEGORIES: Final[dict[type[LLMError], str]] = {
    ContextLengthError: "context_length",
    RateLimitError: "rate_limit",
    AuthenticationError: "authentication",
    NotFoundError: "not_found",
    ContentFilterError: "content_filter",
    LLMError: "unknown",
}


class RetryConfig:
    """How often to try again, and how long to wait; durations are seconds.

    `min_delay` and `backoff_multiplier` are older names of `initial_delay` and `backoff_factor`, which count where
    those are left at their defaults. `jitter` is on unless it is false or zero.
    """

    def __init__(
        self,
        max_retries: int = 3,
        initial_delay: float = _INITIAL_DELAY,
        max_delay: float = 60.0,
        backoff_factor: float = _BACKOFF_FACTOR,
        jitter: object = None,
        honor_retry_after: bool = True,
        min_delay: float | None = None,
        backoff_multiplier: float | None = None,
    ) -> None:
        if min_delay is not None:
            _warn_of_older("min_delay", "initial_delay")
            initial_delay = min_delay if initial_delay == _INITIAL_DELAY else initial_delay
        if backoff_multiplier is not None:
            _warn_of_older("backoff_multiplier", "backoff_factor")
            backoff_factor = backoff_multiplier if backoff_factor == _BACKOFF_FACTOR else backoff_factor
        self._max_retries = max_retries
        self._initial_delay = initial_delay
        self._max_delay = max_delay
        self._backoff_factor = backoff_factor
        self._has_jitter = _is_on(jitter)
        self._honor_retry_after = honor_retry_after

    @property
    def max_retries(self) -> int:
        return self._max_retries

    @property
    def initial_delay(self) -> float:
        return self._initial_delay

    @property
    def max_delay(self) -> float:
        return self._max_delay

    @property
    def backoff_factor(self) -> float:
        return self._backoff_factor

    @property
    def jitter(self) -> float:
        return _JITTER if self._has_jitter else 0.0

    @property
    def honor_retry_after(self) -> bool:
        return self._honor_retry_after

    @property
    def min_delay(self) -> float:
        _warn_of_older("min_delay", "initial_delay")
        return self._initial_delay

    @property
    def backoff_multiplier(self) -> float:
        _warn_of_older("backoff_multiplier", "backoff_factor")
        return self._backoff_factor


def compute_delay(
    config: RetryConfig, attempt: int, retry_after: float | None = None, delay_multiplier: float | None = None
) -> float:
    """Return how long to wait after the attempt of this number, from 0, in seconds.

    A multiplier may exceed the longest delay; the pause that the service asks for is the minimum.
    """
    try:
        delay = min(config.initial_delay * config.backoff_factor**attempt, config.max_delay)
    except OverflowError:
        delay = config.max_delay
    if delay_multiplier is not None and math.isfinite(delay_multiplier) and delay_multiplier > 0:
        delay *= delay_multiplier
    if retry_after is not None and config.honor_retry_after:
        delay = max(delay, retry_after)
    if config.jitter:
        delay *= 0.5 + random.random()  # noqa: S311 - so that many clients do not come back at once
    return delay


async def retry_with_backoff(
    operation: Callable[[], Awaitable[_T]], config: RetryConfig | None = None, *, on_retry: OnRetry | None = None
) -> _T:
    """Return the result of `operation`, retried after errors that may pass.

    Raises:
        LLMError: the last one, or the first that is not retryable.
    """
    config = config if config is not None else RetryConfig()
    attempt = 0
    while True:
        try:
            return await operation()
        except LLMError as error:
            if not error.retryable or attempt >= config.max_retries:
                raise
            multiplier = getattr(error, "delay_multiplier", None)
            delay = compute_delay(config, attempt, error.retry_after, multiplier)
            attempt += 1
            if on_retry is not None:
                await on_retry(attempt, delay, error)
        await asyncio.sleep(delay)


def classify_error_message(
    message: str, *, status_code: int | None = None, provider: str | None = None
) -> type[LLMError]:
    """Return the error class for a service's answer: by its status if that is conclusive, else by its text."""
    if status_code is not None:
        if status_code in _BY_STATUS:
            return _BY_STATUS[status_code]
        if status_code >= 500:
            return ProviderUnavailableError
    lowered = message.lower()
    for words, kind in _BY_WORDS:
        if any(word in lowered for word in words):
            return kind
    return InvalidRequestError if status_code in (400, 422) else LLMError


def error_category(message: str) -> str:
    """Return the kind of failure in a service's text, as a word instead of a class."""
    return _CATEGORIES[classify_error_message(message)]


def _is_on(jitter: object) -> bool:
    if jitter is None or isinstance(jitter, bool):
        return jitter is not False
    if isinstance(jitter, float):
        warnings.warn("`jitter` as a number is deprecated; write True or False", DeprecationWarning, stacklevel=3)
        return jitter != 0.0
    warnings.warn(f"`jitter` is {type(jitter).__name__}, not true or false; it counts as true", stacklevel=3)
    return True


def _warn_of_older(old: str, new: str) -> None:
    warnings.warn(f"`{old}` is deprecated; its name is `{new}`", DeprecationWarning, stacklevel=3)
