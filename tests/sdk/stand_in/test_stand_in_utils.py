"""Retries, shortened texts and hidden secrets, by every name they have."""

from __future__ import annotations

import warnings
from typing import Any

import anyio
import pytest
from amplifier_core import _engine, llm_errors
from amplifier_core.utils import (
    RetryConfig,
    classify_error_message,
    redact_secrets,
    retry_with_backoff,
    truncate_values,
)

from support.rows import each_row

_SMOOTH = {"jitter": False}

DEFAULTS = {
    "max_retries": 3,
    "initial_delay": 1.0,
    "max_delay": 60.0,
    "backoff_factor": 2.0,
    "jitter": 0.2,
    "honor_retry_after": True,
}


@each_row(("name", "default"), DEFAULTS.items())
def test_a_setting_has_its_default_and_cannot_be_changed(name: str, default: object) -> None:
    config = RetryConfig()
    assert getattr(config, name) == default
    with pytest.raises(AttributeError):
        setattr(config, name, default)


def test_settings_are_taken_by_position_in_their_order() -> None:
    config = RetryConfig(5, 0.5, 10.0, 3.0, False, False)
    assert [getattr(config, name) for name in DEFAULTS] == [5, 0.5, 10.0, 3.0, 0.0, False]


@each_row(
    ("jitter", "shown", "warning"),
    [
        (None, 0.2, None),
        (True, 0.2, None),
        (False, 0.0, None),
        (0.5, 0.2, DeprecationWarning),
        (0.0, 0.0, DeprecationWarning),
        (1, 0.2, UserWarning),
        (0, 0.2, UserWarning),
        ("no", 0.2, UserWarning),
    ],
)
def test_jitter_is_on_or_off_however_it_is_said(jitter: Any, shown: float, warning: type[Warning] | None) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = RetryConfig(jitter=jitter)
    assert config.jitter == shown
    assert [one.category for one in caught] == ([warning] if warning else [])


@each_row(
    ("old", "new", "default"), [("min_delay", "initial_delay", 1.0), ("backoff_multiplier", "backoff_factor", 2.0)]
)
def test_an_older_name_warns_and_counts_only_where_the_newer_is_left_alone(old: str, new: str, default: float) -> None:
    with pytest.warns(DeprecationWarning, match=new):
        config = RetryConfig(**{old: 7.0})
    assert getattr(config, new) == 7.0
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(config, old) == 7.0
    with pytest.warns(DeprecationWarning):
        assert getattr(RetryConfig(**{old: 7.0, new: 5.0}), new) == 5.0
    with pytest.warns(DeprecationWarning):
        assert getattr(RetryConfig(), old) == default


@each_row(
    ("settings", "attempt", "given", "delay"),
    [
        ({}, 0, {}, 1.0),
        ({}, 3, {}, 8.0),
        ({}, 6, {}, 60.0),
        ({}, 100_000, {}, 60.0),
        ({}, 0, {"delay_multiplier": 3.0}, 3.0),
        ({}, 6, {"delay_multiplier": 2.0}, 120.0),
        ({}, 0, {"delay_multiplier": 0.0}, 1.0),
        ({}, 0, {"delay_multiplier": -2.0}, 1.0),
        ({}, 0, {"delay_multiplier": float("inf")}, 1.0),
        ({}, 0, {"delay_multiplier": float("nan")}, 1.0),
        ({}, 0, {"retry_after": 90.0}, 90.0),
        ({}, 3, {"retry_after": 2.0}, 8.0),
        ({"honor_retry_after": False}, 0, {"retry_after": 90.0}, 1.0),
        ({}, 1, {"retry_after": 5.0, "delay_multiplier": 4.0}, 8.0),
        ({"initial_delay": 0.5, "backoff_factor": 3.0, "max_delay": 4.0}, 1, {}, 1.5),
    ],
)
def test_a_delay_grows_to_its_cap_and_is_at_least_retry_after(
    settings: dict[str, Any], attempt: int, given: dict[str, float], delay: float
) -> None:
    assert _engine.compute_delay(RetryConfig(**_SMOOTH, **settings), attempt, **given) == pytest.approx(delay)


def test_jitter_varies_a_delay_by_half_even_the_one_that_was_asked_for() -> None:
    delays = [_engine.compute_delay(RetryConfig(), 0, retry_after=10.0) for _ in range(200)]
    assert all(5.0 <= delay < 15.0 for delay in delays)
    assert len(set(delays)) > 100


# Calling again.


async def test_only_what_may_pass_is_called_again_and_each_pause_is_told_first() -> None:
    told: list[tuple[int, float, str]] = []
    raised = iter([llm_errors.RateLimitError("first"), llm_errors.NetworkError("second", delay_multiplier=4.0)])

    async def operation() -> str:
        for error in raised:
            raise error
        return "done"

    async def on_retry(attempt: int, delay: float, error: llm_errors.LLMError) -> None:
        told.append((attempt, delay, str(error)))

    config = RetryConfig(initial_delay=0.001, **_SMOOTH)
    with anyio.fail_after(60):
        assert await retry_with_backoff(operation, config, on_retry=on_retry) == "done"
    assert told == [(1, 0.001, "first"), (2, pytest.approx(0.008), "second")]


@each_row(
    ("error", "calls"),
    [
        (llm_errors.RateLimitError("slow"), 3),
        (llm_errors.QuotaExceededError("empty"), 1),
        (llm_errors.LLMError("maybe", retryable=True), 3),
        (llm_errors.RateLimitError("no", retryable=False), 1),
        (ValueError("not about models"), 1),
        (TimeoutError("nor this"), 1),
    ],
    ids=repr,
)
async def test_the_last_error_is_raised_itself(error: Exception, calls: int) -> None:
    called = 0

    async def operation() -> None:
        nonlocal called
        called += 1
        raise error

    with anyio.fail_after(60), pytest.raises(type(error)) as caught:
        await retry_with_backoff(operation, RetryConfig(max_retries=2, initial_delay=0.001))
    assert caught.value is error
    assert called == calls


# What an answer means.


@each_row(
    ("message", "status", "error"),
    [
        ("", 401, "AuthenticationError"),
        ("", 403, "AccessDeniedError"),
        ("", 404, "NotFoundError"),
        ("", 413, "ContextLengthError"),
        ("context length", 429, "RateLimitError"),
        ("rate limit", 500, "ProviderUnavailableError"),
        ("", 599, "ProviderUnavailableError"),
        ("Context Length exceeded", None, "ContextLengthError"),
        ("TOO MANY TOKENS", 400, "ContextLengthError"),
        ("over the maximum context", None, "ContextLengthError"),
        ("Rate limit, API key", None, "RateLimitError"),
        ("too many requests", None, "RateLimitError"),
        ("authentication failed", None, "AuthenticationError"),
        ("bad API key", None, "AuthenticationError"),
        ("Unauthorized", None, "AuthenticationError"),
        ("model not found", None, "NotFoundError"),
        ("content filter", None, "ContentFilterError"),
        ("safety first", None, "ContentFilterError"),
        ("blocked", 422, "ContentFilterError"),
        ("what?", 400, "InvalidRequestError"),
        ("what?", 422, "InvalidRequestError"),
        ("what?", 418, "LLMError"),
        ("what?", None, "LLMError"),
    ],
)
def test_an_answer_means_what_its_status_says_and_else_what_its_words_say(
    message: str, status: int | None, error: str
) -> None:
    assert classify_error_message(message, status_code=status, provider="any") is getattr(llm_errors, error)


@each_row(
    ("message", "category"),
    [
        ("too many tokens", "context_length"),
        ("Rate limit", "rate_limit"),
        ("unauthorized", "authentication"),
        ("not found", "not_found"),
        ("blocked", "content_filter"),
        ("what?", "unknown"),
    ],
)
def test_the_engine_s_own_answer_is_a_word(message: str, category: str) -> None:
    assert _engine.classify_error_message(message) == category


# Data made fit to be shown.


@each_row(
    ("value", "cut"),
    [
        ("x" * 5, "x" * 5),
        ("x" * 6, "xxxxx... (truncated 1 chars)"),
        (
            {"a": ["y" * 9, {"b": "z" * 7}]},
            {"a": ["yyyyy... (truncated 4 chars)", {"b": "zzzzz... (truncated 2 chars)"}]},
        ),
        (12345678, 12345678),
        (None, None),
    ],
)
def test_long_texts_are_cut_at_any_depth(value: Any, cut: Any) -> None:
    assert truncate_values(value, max_length=5) == cut


def test_texts_are_cut_at_180_characters_by_default() -> None:
    value = {"a": ["x" * 200]}
    assert truncate_values(value) == {"a": ["x" * 180 + "... (truncated 20 chars)"]}
    assert value == {"a": ["x" * 200]}


KEYS = [
    "api_key",
    "apikey",
    "api-key",
    "secret",
    "password",
    "token",
    "credential",
    "credentials",
    "private_key",
    "privatekey",
    "auth",
    "authorization",
]


@each_row("key", KEYS)
def test_a_value_under_a_secret_key_is_replaced_at_any_depth(key: str) -> None:
    value = {"a": [{key.upper(): {"deep": 1}, f"my_{key}": "kept", 5: "kept"}]}
    hidden = {"a": [{key.upper(): "[REDACTED]", f"my_{key}": "kept", 5: "kept"}]}
    assert redact_secrets(value) == hidden
    assert value["a"][0][key.upper()] == {"deep": 1}


def test_other_keys_can_be_named_in_their_place() -> None:
    assert redact_secrets({"token": 1, "pin": 2}, {"pin"}) == {"token": 1, "pin": "[REDACTED]"}
