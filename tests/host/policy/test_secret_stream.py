"""Secrets in a text that comes in pieces: no part of one is shown, and nothing else is kept back for long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.policy.secrets.values import SecretValues

_SECRETS = SecretValues({"KEY": "sk-abcab", "OTHER": "cab9"})


def _streamed(*pieces: str) -> list[str]:
    stream = _SECRETS.stream()
    return [*(stream.feed(piece) for piece in pieces), stream.end()]


def test_a_secret_in_pieces_is_shown_in_none() -> None:
    shown = _streamed("key: s", "k-a", "bca", "b, done")
    assert "".join(shown) == "key: [secret KEY], done"
    assert shown[0] == "key: "


def test_what_turns_out_to_be_no_secret_is_shown() -> None:
    assert "".join(_streamed("ask", "-", "me")) == "ask-me"


@given(st.lists(st.text(alphabet="sk-abc9 ", max_size=6), max_size=12))
def test_pieces_are_masked_as_the_whole(pieces: list[str]) -> None:
    shown = "".join(_streamed(*pieces))
    assert "sk-abcab" not in shown and "cab9" not in shown.replace("[secret KEY]9", "")
    if "cab9" not in "".join(pieces):
        assert shown == _SECRETS.mask("".join(pieces))


def test_without_secrets_nothing_is_kept_back() -> None:
    stream = SecretValues({}).stream()
    assert (stream.feed("abc"), stream.end()) == ("abc", "")
