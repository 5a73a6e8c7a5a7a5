from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.terminal.question import Option, Question, lay_out
from paddock.cli.terminal.rows import cells, clip, fold


@pytest.mark.parametrize(
    ("text", "width", "rows"),
    [
        ("", 10, [""]),
        ("short", 10, ["short"]),
        ("two words", 5, ["two", "words"]),
        ("a /path/that/fits", 16, ["a", "/path/that/fits"]),
        ("a /path/that/does/not", 8, ["a /path/", "that/doe", "s/not"]),
        ("one  two", 4, ["one", "two"]),
        ("界界界", 4, ["界界", "界"]),
        ("x界", 2, ["x", "界"]),
        ("────", 4, ["──", "──"]),
        ("жзийк", 4, ["жз", "ий", "к"]),
    ],
)
def test_text_is_folded_between_words_and_inside_of_those_that_fit_no_row(
    text: str, width: int, rows: list[str]
) -> None:
    assert fold(text, width) == rows


def test_every_row_has_its_mark() -> None:
    assert fold("a b c", 4, first="1) ", rest=" | ") == ["1) a", " | b", " | c"]


@given(st.text(), st.integers(1, 30), st.text(max_size=3), st.text(max_size=3))
def test_no_row_is_wider_than_it_may_be_and_nothing_but_spaces_is_lost(
    text: str, width: int, first: str, rest: str
) -> None:
    width += 2 + max(cells(first), cells(rest))
    rows = fold(text, width, first=first, rest=rest)
    assert all(cells(row) <= width for row in rows)
    kept = [rows[0].removeprefix(first), *(row.removeprefix(rest) for row in rows[1:])]
    assert "".join(kept).replace(" ", "") == text.replace(" ", "")


@given(st.text(), st.integers(2, 30))
def test_what_is_cut_fits(text: str, width: int) -> None:
    cut = clip(text, width)
    assert cells(cut) <= width
    assert cut == text if cells(text) <= width else cut.endswith("..")


def test_the_options_of_a_narrow_question_are_not_cut() -> None:
    options = [Option("yes", "accept the plan; remembered until the plan changes"), Option("no", "do not change it")]
    question = Question("Paddock asks", "Do you?", options, lambda count: ("yes or no:",), is_ours=True)
    rows = lay_out(question, 20, 24, safe=str).options
    assert "".join(row[6:] for row in rows).replace(" ", "") == "".join(one.text for one in options).replace(" ", "")
    assert all(len(row) < 20 for row in rows)
    low = lay_out(question, 20, 9, safe=str).options
    assert len(low) < len(rows) and low[0].startswith("  yes accept") and any(row.endswith("…") for row in low)
