"""The errors of language models: the tree, what each holds, how each reads."""

from __future__ import annotations

import copy

from paddock_sdk.contract import llm_errors
from paddock_sdk.contract.llm_errors import InvalidToolCallError, LLMError, NetworkError, RateLimitError
from support.rows import each_row

TREE: list[tuple[str, type[Exception], bool]] = [
    ("LLMError", Exception, False),
    ("RateLimitError", llm_errors.LLMError, True),
    ("QuotaExceededError", llm_errors.RateLimitError, False),
    ("AuthenticationError", llm_errors.LLMError, False),
    ("AccessDeniedError", llm_errors.AuthenticationError, False),
    ("ContextLengthError", llm_errors.LLMError, False),
    ("ContentFilterError", llm_errors.LLMError, False),
    ("InvalidRequestError", llm_errors.LLMError, False),
    ("ProviderUnavailableError", llm_errors.LLMError, True),
    ("NetworkError", llm_errors.ProviderUnavailableError, True),
    ("LLMTimeoutError", llm_errors.LLMError, True),
    ("NotFoundError", llm_errors.LLMError, False),
    ("StreamError", llm_errors.LLMError, True),
    ("AbortError", llm_errors.LLMError, False),
    ("InvalidToolCallError", llm_errors.LLMError, False),
    ("ConfigurationError", llm_errors.LLMError, False),
]


def test_the_tree_has_sixteen_classes() -> None:
    assert sorted(name for name, _, _ in TREE) == sorted(llm_errors.__all__)
    assert len(TREE) == 16


@each_row(("name", "base", "retryable"), TREE)
def test_a_class_has_its_base_and_its_own_answer_to_retrying(name: str, base: type, retryable: bool) -> None:
    cls = getattr(llm_errors, name)
    assert cls.__bases__ == (base,)
    error = cls("went wrong")
    assert str(error) == "went wrong"
    assert error.args == ("went wrong",)
    assert (
        vars(error).items()
        >= {
            "provider": None,
            "model": None,
            "status_code": None,
            "retryable": retryable,
            "retry_after": None,
            "delay_multiplier": 1.0,
        }.items()
    )
    assert cls("x", retryable=not retryable).retryable is not retryable


@each_row(
    ("error", "text"),
    [
        (LLMError("no"), "LLMError('no')"),
        (
            LLMError("no", provider="p", model="m", status_code=500),
            "LLMError('no', provider='p', model='m', status_code=500)",
        ),
        (RateLimitError("slow"), "RateLimitError('slow', retryable=True)"),
        (NetworkError("gone", retryable=False), "NetworkError('gone')"),
        (LLMError("no", retryable=True, retry_after=1.5), "LLMError('no', retryable=True, retry_after=1.5)"),
        (LLMError("no", retry_after=0.0), "LLMError('no', retry_after=0.0)"),
        (LLMError("no", delay_multiplier=2.0), "LLMError('no', delay_multiplier=2.0)"),
        (InvalidToolCallError("no", tool_name="t"), "InvalidToolCallError('no', tool_name='t')"),
    ],
)
def test_an_error_s_repr_shows_only_what_is_set(error: LLMError, text: str) -> None:
    assert repr(error) == text


def test_an_error_is_copied_with_what_it_holds() -> None:
    error = copy.copy(RateLimitError("slow", provider="p", retry_after=3.0))
    assert repr(error) == "RateLimitError('slow', provider='p', retryable=True, retry_after=3.0)"


def test_a_provider_s_own_subclass_may_change_the_answer_to_retrying() -> None:
    class VendorOverloadedError(LLMError):
        def __init__(self, message: str) -> None:
            super().__init__(message, provider="vendor", retryable=True)

    assert repr(VendorOverloadedError("busy")) == "VendorOverloadedError('busy', provider='vendor', retryable=True)"
