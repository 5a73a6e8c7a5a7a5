from __future__ import annotations

import shlex

from hypothesis import assume, given
from hypothesis import strategies as st

from paddock.cli.terminal.question import Option, Question, lay_out
from paddock.cli.terminal.rows import cells, clip, fold, fold_command, fold_with_commands, wrap
from support.rows import each_row


@each_row(
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
def test_text_is_folded_between_words_and_inside_of_too_long_ones(text: str, width: int, rows: list[str]) -> None:
    assert fold(text, width) == rows


def test_every_row_has_its_mark() -> None:
    assert fold("a b c", 4, first="1) ", rest=" | ") == ["1) a", " | b", " | c"]
    assert fold("address of it", 9, first="label ", rest="  ") == [
        "label ",
        "  address",
        "  of it",
    ]  # no room beside it


@given(st.text(), st.integers(1, 30), st.text(max_size=3), st.text(max_size=3))
def test_no_row_is_too_wide_and_nothing_but_spaces_is_lost(text: str, width: int, first: str, rest: str) -> None:
    width += 2 + max(cells(first), cells(rest))
    rows = fold(text, width, first=first, rest=rest)
    assert all(cells(row) <= width for row in rows)
    kept = [rows[0].removeprefix(first), *(row.removeprefix(rest) for row in rows[1:])]
    assert "".join(kept).replace(" ", "") == text.replace(" ", "")


@each_row(
    ("text", "width", "rows"),
    [
        ("say `a b` now", 10, ["say `a b`", "now"]),
        ("then (`git a b`), or", 14, ["then", "(`git a b`),", "or"]),
        ("an odd ` here", 9, ["an odd `", "here"]),
        ("`not a command`", 9, ["`not a", "command`"]),
        ("`paddock add 'a b' --to x`", 18, ["`paddock add \\", "'a b' --to x`"]),
        ("`paddock add 'a b'`", 16, ["`paddock add \\", "'a b'`"]),
    ],
)
def test_what_is_in_backticks_is_broken_only_where_a_shell_goes_on(text: str, width: int, rows: list[str]) -> None:
    assert fold_with_commands(text, width) == rows


_WORDS = st.lists(st.text(st.sampled_from("ab \\'\"$`é界"), min_size=1, max_size=8), max_size=12)


@given(_WORDS, st.integers(30, 60))
def test_a_shell_takes_the_rows_of_a_command_as_that_command(words: list[str], width: int) -> None:
    assume(all(cells(shlex.quote(word)) <= width - len("    ") - len(" -") for word in words))
    command = shlex.join(["paddock", *words])
    rows = fold_command(command, width, first="  ", rest="    ")
    assert all(cells(row) <= width and row.startswith("  ") for row in rows)
    assert shlex.split("\n".join(rows).replace("\\\n", "")) == ["paddock", *words]


@given(st.text(st.sampled_from("ab `\\'"), max_size=60), st.integers(1, 30))
def test_no_command_in_a_text_makes_a_row_too_wide(text: str, width: int) -> None:
    rows = fold_with_commands(f"`paddock {text}", width + 4, first="? ", rest=" | ")
    assert all(cells(row) <= width + 4 for row in rows) and all(row.startswith(" | ") for row in rows[1:])


def test_off_a_terminal_what_is_in_backticks_stays_in_one_row() -> None:
    text = "set it: `read -rs KEY && export KEY`, then go on"
    assert wrap(text, 20) == ["set it:", "`read -rs KEY && export KEY`,", "then go on"]


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
