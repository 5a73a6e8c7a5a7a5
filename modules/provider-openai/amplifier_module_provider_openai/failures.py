"""Turn the SDK's exceptions into the contract's errors, each with a remedy.

The server's status and code determine the class. Its text counts only if it gives no code, as with compatible servers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import openai
from amplifier_core import llm_errors
from amplifier_core.llm_errors import InvalidToolCallError, LLMError

_SHOWN_CHARACTERS = 500  # of the server's message
_TOO_LONG = ("context length", "context_length", "context size", "too many tokens", "maximum context", "too long")
_FILTERED = ("content_filter", "content filter", "content_policy", "content management policy", "safety system")


@dataclass(frozen=True, slots=True)
class ErrorPlace:
    """The server that a request went to, as errors name it."""

    provider: str
    base_url: str
    host: str  # with the port
    is_openai: bool
    key_place: str = ""  # where the key is from; empty without a key


def no_key(place: ErrorPlace, model: str) -> LLMError:
    """Return the error of a request that needs a key if there is none."""
    return llm_errors.AuthenticationError(
        f"There is no key for {place.host}. {_give_a_key(place)}", provider=place.provider, model=model
    )


def failure_of(error: Exception, place: ErrorPlace, model: str, *, has_begun: bool) -> LLMError:
    """Return the contract's error for one of the SDK's; `has_begun`: part of an answer had come."""
    about: dict[str, Any] = {"provider": place.provider, "model": model}
    if isinstance(error, openai.APITimeoutError):
        return llm_errors.LLMTimeoutError(
            f"{place.host} said nothing for too long: try again, or raise `timeout_seconds`.", **about
        )
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, place, about)
    if isinstance(error, openai.APIConnectionError):
        if has_begun:
            return broken_off(place, model, "the connection was lost")
        return _unreachable(error, place, about)
    if isinstance(error, openai.APIError):  # an error in the midst of a stream
        return _of_code(
            _reply_of(error), _code(error), place, {**about, "retry_after": None}
        ) or llm_errors.StreamError(
            f"{place.host} gave up in the midst of its answer: {_reply_of(error)} Try again.", **about
        )
    if isinstance(error, UnicodeEncodeError | TypeError):
        return llm_errors.InvalidRequestError(
            f"The request to {place.host} cannot be written ({type(error).__name__}: "
            f"{str(error)[:_SHOWN_CHARACTERS]}), so nothing was sent. Begin a new conversation; if it stays so, look "
            "at what the tools' schemas hold.",
            **about,
        )
    # Other errors of a client that cannot read an answer: invalid JSON, invalid UTF-8, an unknown encoding.
    return llm_errors.StreamError(
        f"{place.host} sent an answer that cannot be read ({type(error).__name__}: {str(error)[:_SHOWN_CHARACTERS]}). "
        "Try again; if it stays so, the server does not speak OpenAI's chat completions: check `base_url`.",
        **about,
    )


def broken_off(place: ErrorPlace, model: str, why: str) -> LLMError:
    """Return the error of an answer that ended before its end."""
    return llm_errors.StreamError(
        f"The answer of {place.host} broke off: {why}. Try again.", provider=place.provider, model=model
    )


def no_answer(place: ErrorPlace, model: str, what: str) -> LLMError:
    """Return the error of something else where an answer belongs, such as a page."""
    return llm_errors.ProviderUnavailableError(
        f"{place.host} answered with {what} where an answer of a model belongs. Check that `base_url` "
        f"({place.base_url}) is the API's and ends with /v1, and that no proxy answers in its place.",
        provider=place.provider,
        model=model,
        retryable=False,
    )


def given_up(error: LLMError, tries: int) -> LLMError:
    """Return an error with the number of tries in its message."""
    if tries == 1 or isinstance(error, InvalidToolCallError):
        return error
    return type(error)(
        f"{error} Given up after {tries} tries.",
        provider=error.provider,
        model=error.model,
        status_code=error.status_code,
        retryable=error.retryable,
        retry_after=error.retry_after,
    )


def _of_status(error: openai.APIStatusError, place: ErrorPlace, about: dict[str, Any]) -> LLMError:
    status, reply, code = error.status_code, _reply_of(error), _code(error)
    about |= {"status_code": status, "retry_after": _retry_after(error.response.headers)}
    known = _of_code(reply, code, place, about)
    if known is not None:
        return known
    if status == 401 and not place.key_place:
        return llm_errors.AuthenticationError(
            f"{place.host} asks for a key, and this provider has none: {reply} {_give_a_key(place)}", **about
        )
    if status == 401:
        return llm_errors.AuthenticationError(
            f"{place.host} does not take the key in {place.key_place}: {reply} Set it to one that is for this server.",
            **about,
        )
    if status == 403 and "proxy-status" in error.response.headers:
        return llm_errors.NetworkError(
            f"A proxy on the way to {place.host} refuses this, and not the server: {reply}", **about, retryable=False
        )
    if status == 403:
        return llm_errors.AccessDeniedError(
            f"{place.host} refuses this: {reply} Check what the key, its project and its region may use.",
            **about,
        )
    if status == 404:
        is_usual = place.base_url.rstrip("/").endswith("/v1")
        path = "" if is_usual else " Where such a server answers usually ends with /v1: see `base_url`."
        return llm_errors.NotFoundError(
            f"{place.host} has no model `{about['model']}`, or nothing at {place.base_url}: {reply} Choose one that "
            f"the server lists, with `default_model`.{path}",
            **about,
        )
    if status == 413:
        return _too_long(reply, place, about)
    if status in (408, 504):
        return llm_errors.LLMTimeoutError(f"{place.host} took too long: {reply} Try again.", **about)
    if status == 429:
        return _limited(reply, place, about)
    if status >= 500 or status in (409, 425):
        return llm_errors.ProviderUnavailableError(f"{place.host} cannot answer now: {reply} Try again later.", **about)
    return llm_errors.InvalidRequestError(
        f"{place.host} does not take the request: {reply} Check the provider's settings, or begin a new conversation.",
        **about,
    )


def _of_code(reply: str, code: str, place: ErrorPlace, about: dict[str, Any]) -> LLMError | None:
    """Return the error that a server's code or message names, for any status; None if they name none."""
    status = about.get("status_code")
    may_be_words = status in (None, 400, 413, 422, 500)
    words = reply.lower() if may_be_words else ""
    if code == "insufficient_quota":
        return llm_errors.QuotaExceededError(
            f"The account at {place.host} has nothing left to spend: {reply} Add credit or raise its limit there.",
            **about,
        )
    if code in ("rate_limit_exceeded", "slow_down"):
        return _limited(reply, place, about)
    if code in ("context_length_exceeded", "string_above_max_length") or any(one in words for one in _TOO_LONG):
        return _too_long(reply, place, about)
    if any(one in code or one in words for one in _FILTERED):
        return llm_errors.ContentFilterError(
            f"{place.host} refuses to answer this: {reply} Put it in other words, or leave out what it objects to.",
            **about,
        )
    if code == "model_not_found":
        return llm_errors.NotFoundError(
            f"{place.host} has no model `{about['model']}`: {reply} Choose one that the server lists, with "
            "`default_model`.",
            **about,
        )
    return None


def _give_a_key(place: ErrorPlace) -> str:
    variable = "OPENAI_API_KEY" if place.is_openai else "NAME"
    return (
        f"Set a variable to it, and `api_key` to ${{{variable}}}; in a sandbox, grant it as well: "
        f"`secrets: [{{name: {variable}, inject: {place.host!r}}}]`."
    )


def _limited(reply: str, place: ErrorPlace, about: dict[str, Any]) -> LLMError:
    wish = about.get("retry_after")
    wait = f"Wait {wish:g} seconds" if wish else "Wait a while"
    return llm_errors.RateLimitError(
        f"{place.host} takes no more requests for now: {reply} {wait}, or use another model or account.", **about
    )


def _too_long(reply: str, place: ErrorPlace, about: dict[str, Any]) -> LLMError:
    return llm_errors.ContextLengthError(
        f"The conversation is longer than `{about['model']}` takes: {reply} Shorten it (give the context a smaller "
        "limit, or begin a new conversation), or choose a model with a larger window.",
        **about,
    )


def _unreachable(error: openai.APIConnectionError, place: ErrorPlace, about: dict[str, Any]) -> LLMError:
    cause = error.__cause__ or error
    reply = str(cause) or type(cause).__name__
    if "403" in reply and "Proxy" in type(cause).__name__:
        return llm_errors.NetworkError(
            f"This module may not connect to {place.host}: grant it with `permissions: {{net: [{place.host!r}]}}`.",
            **about,
            retryable=False,
        )
    hint = "Check the network" if place.is_openai else "Check that the server runs and that `base_url` is right"
    return llm_errors.NetworkError(
        f"{place.host} cannot be reached: {reply[:_SHOWN_CHARACTERS]}. {hint}; in a sandbox, check that the plan "
        f"grants it: `net: [{place.host!r}]`.",
        **about,
    )


def _reply_of(error: openai.APIError) -> str:
    """Return the server's message, as a sentence on one line without control characters."""
    body = error.body
    text = body.get("message") if isinstance(body, Mapping) else None
    if not isinstance(text, str) or not text:
        text = body if isinstance(body, str) and body else error.message or "an error without words"
    if text.lstrip().lower().startswith(("<!doctype", "<html")):
        text = "a page instead of an error"
    text = "".join(one if one.isprintable() else " " for one in text[:_SHOWN_CHARACTERS])
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _code(error: openai.APIError) -> str:
    body = error.body if isinstance(error.body, Mapping) else {}
    return next((str(body[name]) for name in ("code", "type") if isinstance(body.get(name), str)), "")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait; None if it states none."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None
