"""Why a completion failed, in terms every provider shares.

A class is the kind of failure; `retryable` is whether the same request may succeed later. The attributes are where it
failed and how long to wait. Each class has its own default of `retryable`, which the constructor overrides.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AbortError",
    "AccessDeniedError",
    "AuthenticationError",
    "ConfigurationError",
    "ContentFilterError",
    "ContextLengthError",
    "InvalidRequestError",
    "InvalidToolCallError",
    "LLMError",
    "LLMTimeoutError",
    "NetworkError",
    "NotFoundError",
    "ProviderUnavailableError",
    "QuotaExceededError",
    "RateLimitError",
    "StreamError",
]


class LLMError(Exception):
    """The base of all failures of a language model; `retry_after` is seconds."""

    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        delay_multiplier: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status_code = status_code
        self.retryable = type(self).retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.delay_multiplier = delay_multiplier

    def __repr__(self) -> str:
        shown = ", ".join([repr(str(self)), *(f"{name}={value!r}" for name, value in self._set_fields().items())])
        return f"{type(self).__name__}({shown})"

    def _set_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"provider": self.provider, "model": self.model, "status_code": self.status_code}
        if self.retryable:
            fields["retryable"] = True
        fields["retry_after"] = self.retry_after
        if self.delay_multiplier != 1.0:
            fields["delay_multiplier"] = self.delay_multiplier
        return {name: value for name, value in fields.items() if value is not None}


class RateLimitError(LLMError):
    """Raised when requests come too fast."""

    retryable = True


class QuotaExceededError(RateLimitError):
    """Raised when an allowance is used up, which waiting a little does not change."""

    retryable = False


class AuthenticationError(LLMError):
    """Raised when the provider does not accept the credentials."""


class AccessDeniedError(AuthenticationError):
    """Raised when the credentials are valid but do not permit this."""


class ContextLengthError(LLMError):
    """Raised when the request does not fit the model's context window."""


class ContentFilterError(LLMError):
    """Raised when the provider's content policy refuses the request or the response."""


class InvalidRequestError(LLMError):
    """Raised when the provider does not understand the request."""


class ProviderUnavailableError(LLMError):
    """Raised when the provider is down or overloaded."""

    retryable = True


class NetworkError(ProviderUnavailableError):
    """Raised when the provider cannot be reached."""


class LLMTimeoutError(LLMError):
    """Raised when the provider takes too long."""

    retryable = True


class NotFoundError(LLMError):
    """Raised when the model or the endpoint does not exist."""


class StreamError(LLMError):
    """Raised when a stream breaks off."""

    retryable = True


class AbortError(LLMError):
    """Raised when the caller called the request off."""


class InvalidToolCallError(LLMError):
    """Raised when a model calls a tool in a way that cannot be understood."""

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool | None = None,
        tool_name: str | None = None,
        raw_arguments: str | None = None,
    ) -> None:
        super().__init__(message, provider=provider, model=model, status_code=status_code, retryable=retryable)
        self.tool_name = tool_name
        self.raw_arguments = raw_arguments

    def _set_fields(self) -> dict[str, Any]:
        own = {"tool_name": self.tool_name, "raw_arguments": self.raw_arguments}
        return {**super()._set_fields(), **{name: value for name, value in own.items() if value is not None}}


class ConfigurationError(LLMError):
    """Raised when the provider is set up wrongly."""
