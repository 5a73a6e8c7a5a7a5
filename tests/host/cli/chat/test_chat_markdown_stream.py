"""Blocks of a text that comes in pieces: the same ones, however it is cut, each of them final and bounded."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.chat.markdown_stream import Block, MarkdownStream
from support.rows import each_row

_TEXT = "Look:\nat it\n\n# Title\n- one\n\n- two\n\nafter\n```python\ndef f():\n\n    return 1\n```\n\nend"


def _blocks(*pieces: str) -> list[Block]:
    stream = MarkdownStream()
    return [block for piece in pieces for block in stream.feed(piece)] + stream.end()


def test_paragraphs_headings_lists_and_code_are_blocks() -> None:
    assert _blocks(_TEXT) == [
        Block("markdown", "Look:\nat it"),
        Block("markdown", "# Title"),
        Block("markdown", "- one\n\n- two"),
        Block("markdown", "after"),
        Block("code", "def f():"),
        Block("code", "", begins=False),
        Block("code", "    return 1", begins=False),
        Block("markdown", "end"),
    ]


@given(st.lists(st.integers(0, len(_TEXT)), max_size=20))
def test_how_a_text_is_cut_changes_nothing(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(_TEXT)]
    pieces = [_TEXT[start:end] for start, end in pairwise(places)]
    assert _blocks(*pieces) == _blocks(_TEXT)


@given(st.text(alphabet="ab -*#`~\n\r1.|>", max_size=200))
def test_no_word_of_a_text_is_lost(text: str) -> None:
    words = [char for char in text if char in "ab"]
    kept = [char for block in _blocks(*text) for char in block.text if char in "ab"]
    assert len(kept) <= len(words)
    if "`" not in text and "~" not in text:  # what begins code names its language
        assert kept == words


@each_row("unit", ["word ", "x", "line\n", "- item\n", "```\ncode\n", "> "])
def test_blocks_and_what_is_open_have_a_largest_size(unit: str) -> None:
    stream, sizes = MarkdownStream(), [0]
    for _ in range(6000):
        sizes += [*(len(block.text) for block in stream.feed(unit)), len(stream.open)]
    sizes += [len(block.text) for block in stream.end()]
    assert 0 < max(sizes) <= 4100


@each_row("unit", ["x", "word ", "~", "- ", "\t", "界"])
@each_row("lead", ["", "```\n", "- item\n\n"])
def test_a_long_line_in_one_piece_is_cut_as_in_many_pieces(lead: str, unit: str) -> None:
    text = lead + unit * (20_000 // len(unit)) + "\n\nend"
    blocks = _blocks(text)
    assert max(len(block.text) for block in blocks) <= 4000
    assert blocks == _blocks(*[text[at : at + 7] for at in range(0, len(text), 7)])


def test_a_line_is_cut_where_its_words_end() -> None:
    words = [f"word{number}" for number in range(3000)]
    blocks = _blocks(" ".join(words) + "\n\n")
    assert [word for block in blocks for word in block.text.split()] == words


def test_lines_that_are_almost_too_long_are_blocks_of_their_own() -> None:
    lines = ["x" * 3000, "y" * 3000, "- z", "w" * 4000]
    assert _blocks("\n".join(lines) + "\r\n") == [
        Block("markdown", lines[0]),
        Block("markdown", f"{lines[1]}\n- z"),
        Block("markdown", lines[3]),
    ]


@each_row("line", ["~" * 3999 + "`", " " * 8 + "~" * 3900 + "`", "`" * 2000 + "x" * 1000 + "`", "~" * 4000])
def test_a_line_of_marks_is_read_at_once(line: str) -> None:
    blocks = _blocks(*[f"{line}\n"] * 200)
    assert all(block.text == line for block in blocks)
