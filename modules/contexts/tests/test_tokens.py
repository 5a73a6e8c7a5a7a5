"""Counting tokens: by an encoding that is at hand, by an estimate elsewhere, and never over a network."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from amplifier_module_context_simple import Settings, SimpleContextManager, tokens
from amplifier_module_context_simple.tokens import TokenCounter

_MESSAGE = {"role": "user", "content": "one two three four"}


@pytest.fixture
def tokenizer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Have a `tiktoken` that counts words, whose encodings lie in a folder if they are said to."""

    def install(*cached: str, content: bytes = b"ranks") -> None:
        def get_encoding(name: str) -> SimpleNamespace:
            assert name in cached, "this would download it"
            return SimpleNamespace(encode_ordinary=str.split)

        monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=get_encoding))
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        for name, (url, _) in tokens.ENCODINGS.items():
            if name in cached:
                (tmp_path / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).write_bytes(content)
            digest = hashlib.sha256(b"ranks").hexdigest()
            monkeypatch.setitem(tokens.ENCODINGS, name, (url, digest))

    return install


def test_an_encoding_at_hand_counts(tokenizer: Callable[..., None]) -> None:
    tokenizer("cl100k_base")
    counter = TokenCounter()
    assert counter.method == "cl100k_base"
    assert counter.tokens_of(_MESSAGE) == 4 + 4
    assert counter.tokens_of({"role": "user", "content": "word " * 10_000}) == pytest.approx(10_000, rel=0.01)


def test_the_estimate_counts_where_the_file_would_be_downloaded(tokenizer: Callable[..., None]) -> None:
    tokenizer()
    counter = TokenCounter()
    assert counter.method == "estimate"
    assert counter.tokens_of(_MESSAGE) == 4 + 5


def test_a_damaged_file_is_not_used_as_it_would_be_downloaded_anew(tokenizer: Callable[..., None]) -> None:
    tokenizer("o200k_base", content=b"damaged")
    assert TokenCounter().method == "estimate"


def test_the_estimate_can_be_asked_for(tokenizer: Callable[..., None]) -> None:
    tokenizer("o200k_base")
    assert TokenCounter("estimate").method == "estimate"


def test_an_encoding_that_is_asked_for_and_lacking_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ValueError, match=r"`o200k_base` is not at hand: `tiktoken` has to be installed"):
        SimpleContextManager(Settings(tokenizer="o200k_base"))
