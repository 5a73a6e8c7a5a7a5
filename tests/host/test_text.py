from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from paddock.text import escape
from support.rows import each_row

ANY_TEXT = st.text(st.characters())  # lone surrogates included
BIDI_CONTROLS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@each_row(
    ("text", "shown"),
    [
        ("plain `text`, ünïcödé, 漢字, 🎉", "plain `text`, ünïcödé, 漢字, 🎉"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nerror: forged", r"a\nerror: forged"),
        ("a\rb\tc\x00", r"a\rb\tc\x00"),
        ("\x7f", r"\x7f"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("a\u2066b\u2069", r"a\u2066b\u2069"),
        ("a\u200bb\u200dc\ufeff", r"a\u200bb\u200dc\ufeff"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("", ""),
    ],
)
def test_what_could_act_on_a_terminal_becomes_visible(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_lines_and_tabs_stay_only_when_asked_for() -> None:
    assert escape("a\n\tb\r\x1b", multiline=True) == "a\n\tb\\r\\x1b"


@given(ANY_TEXT, st.booleans())
def test_nothing_unsafe_is_left_in_any_text(text: str, multiline: bool) -> None:
    shown = escape(text, multiline=multiline)
    shown.encode("utf-8")
    for char in shown:
        if multiline and char in "\n\t":
            continue
        assert unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(char) not in BIDI_CONTROLS


@given(ANY_TEXT)
def test_escaping_twice_changes_nothing_more(text: str) -> None:
    assert escape(escape(text)) == escape(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_what_a_person_can_see_is_kept(text: str) -> None:
    assert escape(text) == text
