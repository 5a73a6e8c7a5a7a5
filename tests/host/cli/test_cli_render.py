from __future__ import annotations

import io

import pytest

from paddock.cli.display import ScreenDisplay
from paddock.cli.render import Screen

_HOSTILE = "[bold]\x1b[2J\u202e:smile:"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setenv("COLUMNS", "60")
    return io.StringIO()


@pytest.mark.parametrize(
    "draw",
    [
        lambda screen: screen.note(_HOSTILE),
        lambda screen: screen.warning(_HOSTILE),
        lambda screen: screen.message("info", _HOSTILE, _HOSTILE),
        lambda screen: screen.module_line("tool-x", _HOSTILE),
        lambda screen: screen.alarm(_HOSTILE),
        lambda screen: screen.title(_HOSTILE),
        lambda screen: screen.points([_HOSTILE]),
        lambda screen: screen.labelled([(_HOSTILE, "x")]),
        lambda screen: screen.listing([(_HOSTILE, "x")]),
        lambda screen: screen.table(["title"], [(_HOSTILE,)]),
        lambda screen: screen.quote("title", _HOSTILE),
        lambda screen: screen.ask(_HOSTILE, [_HOSTILE], "deny", seconds=60),
    ],
)
def test_what_a_module_wrote_neither_acts_on_the_terminal_nor_is_read_as_markup(
    stream: io.StringIO, draw: object
) -> None:
    draw(Screen(stream))  # type: ignore[operator]
    assert r"[bold]\x1b[2J\u202e:smile:" in stream.getvalue()


def test_a_line_that_never_ends_is_cut(stream: io.StringIO) -> None:
    Screen(stream).module_line("tool-x", "a" * 1_000_000)
    assert len(stream.getvalue()) < 3000


def test_a_long_question_says_how_much_of_it_is_not_shown(stream: io.StringIO) -> None:
    Screen(stream).ask("line\n" * 1000, ["Allow"], "deny", seconds=60)
    assert "4801 characters are not shown" in stream.getvalue()


def test_every_line_of_a_message_has_its_source(stream: io.StringIO) -> None:
    ScreenDisplay(Screen(stream)).show_message("one\ntwo", "warning", "hooks-x:hook")
    assert stream.getvalue() == "warning: hooks-x:hook: one\nwarning: hooks-x:hook: two\n"


def test_labelled_text_is_folded_beside_its_label_and_a_path_is_not_broken(stream: io.StringIO) -> None:
    path = "/a-path-that-is-much-longer-than-the-whole-terminal-is-wide-and-must-be-copied"
    Screen(stream).labelled([("  one  ", "word " * 15), ("  number-two  ", path)])
    assert stream.getvalue().splitlines() == [
        "  one         " + " ".join(["word"] * 9),
        "              " + " ".join(["word"] * 6),
        f"  number-two  {path}",
    ]


def test_off_a_terminal_there_is_neither_colour_nor_movement(stream: io.StringIO) -> None:
    screen = Screen(stream)
    screen.show_status("starting")
    screen.text("error: it broke\n\nhint: mend it")
    assert stream.getvalue() == "error: it broke\n\nhint: mend it\n"


def test_a_stream_that_nobody_reads_any_more_is_no_error() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    screen = Screen(Closed())
    screen.module_line("tool-x", "text")
    screen.warning("text")
