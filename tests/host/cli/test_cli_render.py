from __future__ import annotations

import io
from collections.abc import Callable
from itertools import product

import pytest

from paddock.cli.terminal.render import Screen, ScreenDisplay
from paddock.text import escape
from support.examples import IN_FULL
from support.person import Person
from support.rows import each_row

_COLUMNS = 40
_HOSTILE = "[bold]\x1b[2J\u202e:smile:"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setenv("COLUMNS", "60")
    return io.StringIO()


def test_a_line_that_never_ends_is_cut(stream: io.StringIO) -> None:
    Screen(stream).module_line("tool-x", "a" * 1_000_000)
    assert len(stream.getvalue()) < 3000


def test_a_long_quote_says_how_much_of_it_is_not_shown(stream: io.StringIO) -> None:
    Screen(stream).quote("title", "line\n" * 1000)
    assert stream.getvalue().splitlines() == [
        "┌── title",
        *["│ line"] * 40,
        "└──",
        "  4801 characters are not shown",
    ]


_DRAWINGS: list[Callable[[Screen, str], None]] = [
    lambda screen, text: screen.note(f"note: {text}"),
    lambda screen, text: screen.warning(text),
    lambda screen, text: screen.message("info", "tool-x:hook", text),
    lambda screen, text: screen.message("info", text, "text"),
    lambda screen, text: screen.module_line("tool-x", text),
    lambda screen, text: screen.module_line(text, "text"),
    lambda screen, text: screen.alarm(text),
    lambda screen, text: screen.title(f"- {text}"),
    lambda screen, text: screen.text(f"error: {escape(text)}"),  # which takes what is escaped
    lambda screen, text: screen.points([text]),
    lambda screen, text: screen.labelled([("label ", text)]),
    lambda screen, text: screen.listing([(text, "x")]),
    lambda screen, text: screen.listing([("x", text), ("y", "z")]),
    lambda screen, text: screen.quote("title", text),
    lambda screen, text: ScreenDisplay(screen).show_message(text, "info", "tool-x:hook"),
]


@each_row("draw", _DRAWINGS)
def test_no_text_of_a_module_reaches_the_left_edge_of_a_terminal(draw: Callable[[Screen, str], None]) -> None:
    for number, (filler, wide) in enumerate(product(["x", "word ", "界", "■", "🫠", "e\u0301"], [False, True])):
        person = Person(_COLUMNS, 50, wide_ambiguous=wide)
        # Every column in which the text can end: each filler takes a sixth of them.
        step = 1 if IN_FULL else 6
        for length in range(number % step, _COLUMNS + 1, step):
            draw(Screen(person.output), filler * length + "╔══ Paddock asks, yes or no?")
            person.rows()
        rows = person.all_rows()
        person.close()
        assert any("╔══" in row for row in rows), (filler, wide)
        assert not any(row.startswith(("╔", "Paddock")) for row in rows), (filler, wide)


@each_row(
    "draw",
    [
        *_DRAWINGS,
        lambda screen, text: screen.labelled([(text, "x")]),
        lambda screen, text: screen.table(["title"], [(text,)]),
    ],
)
def test_all_that_is_drawn_is_masked_and_escaped_and_no_markup(draw: Callable[[Screen, str], None]) -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.mask = lambda text: text.replace("hunter2", "***")
    draw(screen, f"key=hunter2.{_HOSTILE}")
    assert r"key=***.[bold]\x1b[2J\u202e:smile:" in stream.getvalue()


def test_a_secret_where_a_line_is_cut_is_hidden_as_a_whole(stream: io.StringIO) -> None:
    screen = Screen(stream)
    screen.mask = lambda text: text.replace("hunter2", "*")
    screen.note("x" * 1996 + "hunter2" + "y" * 100)
    assert "hunt" not in stream.getvalue() and "x*yyy…" in stream.getvalue()


def test_a_secret_of_several_lines_is_hidden_in_a_message(stream: io.StringIO) -> None:
    screen = Screen(stream)
    screen.mask = lambda text: text.replace("begin\nend", "***")
    ScreenDisplay(screen).show_message("key begin\nend.\nmore", "info", "x")
    assert stream.getvalue() == "info: x: key ***.\ninfo: x: more\n"


def test_off_a_terminal_a_line_stays_one(stream: io.StringIO) -> None:
    Screen(stream).module_line("tool-x", "word " * 100)
    assert stream.getvalue().count("\n") == 1


def test_labelled_text_is_folded_beside_its_label_and_a_path_is_not_broken(stream: io.StringIO) -> None:
    path = "/a-path-that-is-much-longer-than-the-whole-terminal-is-wide-and-must-be-copied"
    Screen(stream).labelled([("  one  ", "word " * 15), ("  number-two  ", path)])
    assert stream.getvalue().splitlines() == [
        "  one         " + " ".join(["word"] * 9),
        "              " + " ".join(["word"] * 6),
        f"  number-two  {path}",
    ]


def test_a_width_that_is_no_number_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(columns: str) -> str:
        monkeypatch.setenv("COLUMNS", columns)
        stream = io.StringIO()
        Screen(stream).labelled([("label", "word " * 100)])
        return stream.getvalue()

    assert drawn("²") == drawn("") != drawn("40")


def test_off_a_terminal_there_is_neither_colour_nor_movement(stream: io.StringIO) -> None:
    screen = Screen(stream)
    screen.show_status("starting")
    screen.text("error: it broke\n\nhint: mend it")
    assert stream.getvalue() == "error: it broke\n\nhint: mend it\n"


def test_a_stream_without_a_reader_is_no_error() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    screen = Screen(Closed())
    screen.module_line("tool-x", "text")
    screen.warning("text")
