"""Failures as the contract's errors: the class, whether to retry, and a remedy for a person."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import anthropic
import httpx2
from amplifier_core import llm_errors as errors

from .settings import KEY_VARIABLE

_TOO_LONG = re.compile(r"prompt is too long|context (window|length|limit)|maximum context|too many tokens", re.I)
_UNPAID = re.compile(r"credit balance|spend limit|usage limit|billing", re.I)
_FILTERED = re.compile(r"content filtering policy|content.filter", re.I)
_SIGNED = re.compile(r"signature|thinking.{0,40}block|block.{0,40}thinking", re.I)
_SHOWN_CHARACTERS = 300  # of a server's message


@dataclass(frozen=True, slots=True)
class Asked:
    """The server and the model that a request went to, and where its key is from, as errors name them."""

    provider: str
    model: str
    host: str
    key_place: str = KEY_VARIABLE


def failure_of(error: Exception, asked: Asked, now: Callable[[], float] = time.time) -> errors.LLMError:
    """Return the contract's error for an exception of the SDK, of its transport or of reading an answer."""
    if isinstance(error, errors.LLMError):
        error.provider = error.provider or asked.provider
        error.model = error.model or asked.model
        return error
    if isinstance(error, anthropic.APIStatusError):
        return _refused(error, asked, now)
    if isinstance(error, anthropic.APITimeoutError | httpx2.TimeoutException):
        return _made(
            errors.LLMTimeoutError,
            f"{asked.host} said nothing for too long. Try again; `timeout_seconds` is how long it may take.",
            asked,
        )
    if isinstance(error, httpx2.TransportError) and not isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return _made(
            errors.StreamError,
            f"The connection to {asked.host} broke off before the answer was over ({_text(error)}). Ask again.",
            asked,
        )
    if isinstance(error, anthropic.APIConnectionError | httpx2.TransportError):
        return _unreachable(error, asked)
    if isinstance(error, UnicodeEncodeError | TypeError):
        return _made(
            errors.InvalidRequestError,
            f"The request to {asked.host} cannot be written ({type(error).__name__}: {_text(error)}), so nothing was "
            f"sent. Begin a new conversation; if it stays so, look at what the tools' schemas hold.",
            asked,
        )
    if isinstance(error, ValueError | anthropic.APIResponseValidationError):
        return _made(
            errors.StreamError,
            f"{asked.host} sent what is no event of an answer ({_text(error)}). Ask again; if it stays so, check that "
            f"`base_url` is a server of Anthropic's Messages API.",
            asked,
        )
    return _made(errors.LLMError, f"The request to {asked.host} failed: {type(error).__name__}: {_text(error)}", asked)


def no_key(asked: Asked) -> errors.LLMError:
    """Return the failure of a provider that was given no key."""
    return _made(
        errors.AuthenticationError,
        f"There is no key for {asked.host}. Set {KEY_VARIABLE} to it, and `api_key` to ${{{KEY_VARIABLE}}}; in a "
        f"sandbox, grant it as well: `secrets: [{{name: {KEY_VARIABLE}, inject: {asked.host!r}}}]`.",
        asked,
    )


def nothing_said(asked: Asked) -> errors.LLMError:
    """Return the failure of a request without a message."""
    return _made(errors.InvalidRequestError, "The request has no message with any text; send one.", asked)


def no_events(content_type: str, asked: Asked) -> errors.LLMError:
    """Return the failure of an answer that is no stream of events, such as a page in HTML."""
    return _made(
        errors.ProviderUnavailableError,
        f"{asked.host} answered with {content_type or 'something without a type'} instead of events. Check that "
        f"`base_url` is a server of Anthropic's Messages API, and that no sign-in page of a network answers for it.",
        asked,
        retryable=False,
    )


def ended_early(asked: Asked) -> errors.LLMError:
    """Return the failure of a stream that was over before the answer was."""
    return _made(errors.StreamError, f"{asked.host} ended the answer in the middle. Ask again.", asked)


def refused_answer(explanation: str, asked: Asked) -> errors.LLMError:
    """Return the failure of an answer that the model refused to give."""
    why = f": {explanation}" if explanation else ""
    return _made(
        errors.ContentFilterError,
        f"{asked.model} refuses to answer this{why}. Put the request differently, or begin a new conversation without "
        f"it.",
        asked,
    )


def only_thoughts(max_tokens: int, asked: Asked) -> errors.LLMError:
    """Return the failure of an answer that was cut off before any text."""
    return _made(
        errors.InvalidRequestError,
        f"{asked.model} used all {max_tokens} tokens that an answer may have before it said anything. Set a larger "
        f"`max_output_tokens`, or less `reasoning_effort` or `thinking`.",
        asked,
    )


def is_about_thinking(failure: errors.LLMError) -> bool:
    """Whether a request was refused for the thinking blocks in it."""
    return isinstance(failure, errors.InvalidRequestError) and bool(_SIGNED.search(str(failure)))


def given_up(failure: errors.LLMError, tries: int) -> errors.LLMError:
    """Return the failure after the last try, with the number of tries."""
    if tries > 1:
        failure.args = (f"{failure} It was tried {tries} times.", *failure.args[1:])
    return failure


def _refused(error: anthropic.APIStatusError, asked: Asked, now: Callable[[], float]) -> errors.LLMError:
    status = error.status_code
    kind = error.type or ""
    message = _message_of(error)
    host = asked.host
    about: dict[str, Any] = {"status_code": status}
    # An error in the midst of a stream has the status of the stream, so its own kind comes first.
    match (kind if status < 400 else "", status):
        case (_, 403) if "proxy-status" in error.response.headers:
            text = f"A proxy on the way to {host} refuses this, and not the server: {message}."
            return _made(errors.NetworkError, text, asked, retryable=False, **about)
        case ("authentication_error", _) | (_, 401):
            text = f"{host} does not take the key in {asked.key_place}: {message}. Set it to one that is valid there."
            return _made(errors.AuthenticationError, text, asked, **about)
        case ("billing_error", _) | (_, 402):
            return _unpaid(message, asked, **about)
        case ("permission_error", _) | (_, 403):
            text = f"The key may not do this: {message}. Use a key of a workspace that may use {asked.model}."
            return _made(errors.AccessDeniedError, text, asked, **about)
        case ("not_found_error", _) | (_, 404):
            text = (
                f"{host} has no model `{asked.model}` for this key, or is no server of Anthropic's API: {message}. "
                f"Set `default_model` to one that `list_models` names, and check `base_url`."
            )
            return _made(errors.NotFoundError, text, asked, **about)
        case (_, 413):
            return _too_long(message, asked, **about)
        case ("rate_limit_error", _) | (_, 429):
            about["retry_after"] = wait = _retry_after(error, now)
            when = f" It takes requests again in {wait:g} seconds." if wait is not None else ""
            text = (
                f"{host} gets more requests than your account may make: {message}.{when} Wait, or ask for less at once."
            )
            return _made(errors.RateLimitError, text, asked, **about)
        case ("timeout_error", _) | (_, 408 | 504):
            text = f"{host} gave up on the request: {message}. Ask again, or for less at once."
            return _made(errors.LLMTimeoutError, text, asked, **about)
        case ("overloaded_error" | "api_error", _):
            # An answer had begun: loops repeat the request where the provider cannot.
            text = f"{host} broke the answer off: {message}. Ask again later."
            return _made(errors.StreamError, text, asked, **about)
        case (_, int()) if status >= 500:
            about["retry_after"] = _retry_after(error, now)
            text = f"{host} cannot answer now ({status}): {message}. Ask again later."
            return _made(errors.ProviderUnavailableError, text, asked, **about)
    if _TOO_LONG.search(message):
        return _too_long(message, asked, **about)
    if _UNPAID.search(message):
        return _unpaid(message, asked, **about)
    if _FILTERED.search(message):
        text = f"{host} blocks this request: {message}. Put it differently."
        return _made(errors.ContentFilterError, text, asked, **about)
    if status < 400:
        return _made(errors.StreamError, f"{host} broke the answer off: {message}. Ask again.", asked, **about)
    text = f"{host} does not take the request: {message}. Check the settings of the provider and the tools' schemas."
    return _made(errors.InvalidRequestError, text, asked, **about)


def _too_long(message: str, asked: Asked, **about: Any) -> errors.LLMError:
    text = (
        f"The conversation is longer than {asked.model} takes: {message}. Clear or compact it, or use a model with a "
        f"larger context window."
    )
    return _made(errors.ContextLengthError, text, asked, **about)


def _unpaid(message: str, asked: Asked, **about: Any) -> errors.LLMError:
    text = f"{asked.host} wants to be paid first: {message}. See to the balance and the limits of your account."
    return _made(errors.QuotaExceededError, text, asked, **about)


def _unreachable(error: Exception, asked: Asked) -> errors.LLMError:
    causes = list(_causes(error))
    if any(isinstance(cause, httpx2.ProxyError) and "403" in str(cause) for cause in causes):
        text = (
            f"This module may not connect to {asked.host}. A grant allows it: `permissions: {{net: [{asked.host}]}}`."
        )
        return _made(errors.NetworkError, text, asked, retryable=False)
    text = (
        f"{asked.host} cannot be reached ({_text(causes[-1])}). Check the network, `base_url`, and that the plan "
        f"grants `net: [{asked.host}]`."
    )
    return _made(errors.NetworkError, text, asked)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        if str(error) or isinstance(error, httpx2.TransportError):
            yield error
        error = error.__cause__


def _message_of(error: anthropic.APIStatusError) -> str:
    if isinstance(error.api_message, str) and error.api_message:
        return _short(error.api_message)
    content_type = error.response.headers.get("content-type", "")
    if "html" in content_type:
        return f"a page in HTML, with status {error.status_code}"
    return _short(str(error)) or f"status {error.status_code}"


def _retry_after(error: anthropic.APIStatusError, now: Callable[[], float]) -> float | None:
    given = error.response.headers.get("retry-after", "")
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(given).timestamp() - now()
        except (TypeError, ValueError):
            return None
    # None for 0 as well: a failure that may be repeated at once is one of the host, whose provider died.
    return seconds if 0 < seconds < float("inf") else None


def _made(kind: type[errors.LLMError], text: str, asked: Asked, **about: Any) -> errors.LLMError:
    return kind(text, provider=asked.provider, model=asked.model, **about)


def _text(error: BaseException) -> str:
    return _short(str(error)) or type(error).__name__


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
