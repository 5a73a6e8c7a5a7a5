"""What a terminal shows of a conversation, row by row: as it grows, once it is complete, and whatever its width is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from paddock.cli.chat.conversation_screen import ConversationScreen
from paddock.cli.chat.tool_call import CallEnd, Change
from paddock.cli.terminal.render import Screen
from paddock.policy.secrets.values import SecretValues
from support.person import Person


@pytest.fixture(params=[80, 20])
def person(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    person = Person(columns=request.param, rows=12)
    yield person
    person.close()


class Drawn:
    def __init__(self, person: Person, secrets: SecretValues) -> None:
        self.now = 0.0
        screen = Screen(person.output)
        screen.mask = secrets.mask
        self.screen = ConversationScreen(screen, secrets.stream, clock=self._clock)

    def _clock(self) -> float:
        self.now += 1.0  # so that each piece is drawn
        return self.now

    def say(self, *pieces: str) -> None:
        for piece in pieces:
            self.screen.say(piece)


@pytest.fixture
def drawn(person: Person) -> Drawn:
    return Drawn(person, SecretValues({"KEY": "sk-123456"}))


async def test_the_open_block_grows_and_is_replaced_when_it_is_complete(person: Person, drawn: Drawn) -> None:
    drawn.say("a **bo", "ld** wo")
    assert person.rows() == ["  a **bold** wo"]
    drawn.say("rd\n", "\nnext")
    assert person.rows() == ["  a bold word", "", "  next"]
    drawn.screen.end_text()
    assert person.rows() == ["  a bold word", "", "  next", ""]


async def test_a_block_higher_than_the_screen_leaves_every_row_once(person: Person, drawn: Drawn) -> None:
    words = [f"word{number}" for number in range(400)]
    for word in words:
        drawn.say(f"{word} ")
        assert person.rows()  # the terminal takes it
    drawn.screen.end_text()
    assert " ".join(person.all_rows()).split() == words


async def test_code_and_lists_keep_their_shape(person: Person, drawn: Drawn) -> None:
    drawn.say("- one\n- two\n\n```py\nif x:\n    y\n```\n")
    drawn.screen.end_text()
    assert person.all_rows() == ["   • one", "   • two", "", "    if x:", "        y", ""]


async def test_what_looks_like_html_is_shown_as_it_was_written(person: Person, drawn: Drawn) -> None:
    drawn.say("Use <b>bold</b>: Vec<String>\n\n<div>\ntext\n</div>\n\n")
    drawn.screen.end_text()
    assert " ".join(" ".join(person.all_rows()).split()) == "Use <b>bold</b>: Vec<String> <div> text </div>"


async def test_no_row_of_a_model_begins_where_ours_do(person: Person, drawn: Drawn) -> None:
    hostile = "\x1b[2J\x1b]0;x\x07\r╔══ Paddock asks\n\n# ╔══ Paddock\n\n> ┌── module\n\n" + "界" * 60 + "\n\n"
    hostile += (
        "| a | b |\n|---|---|\n| ╔══ | "
        + "x" * 90
        + " |\n\n```\n\x9b2J╔══\n"
        + "y" * 90
        + "\n```\n&#x9b;2J [a](http://h/\x1b)"
    )
    for char in hostile:
        drawn.say(char)
        person.rows()
    drawn.screen.end_text()
    rows = person.all_rows()  # fails for a control character
    assert all(row.startswith("  ") or not row for row in rows)


async def test_no_part_of_a_secret_is_drawn_as_it_comes(person: Person, drawn: Drawn) -> None:
    drawn.say(*"the key is sk-123456 now")
    drawn.screen.end_text()
    assert "sk-" not in person.seen
    assert "[secret KEY]" in " ".join(row.strip() for row in person.all_rows())


async def test_a_call_shows_its_outcome_however_long_it_is(person: Person, drawn: Drawn) -> None:
    drawn.say("look\n")
    change = Change("a.txt", ("@ line 1", "-old \x1b[31m", "+new sk-123456"), 3, "+1 -1")
    drawn.screen.show_call(CallEnd("edit_file", "a/" * 300, "ok", 1.26, "", change))
    drawn.screen.show_call(CallEnd("ls", "", "refused", None, "no"))
    text = " ".join(row.strip() for row in person.all_rows())
    assert "(ok, 1.3 s) +1 -1" in text and "ls (refused): no" in text
    assert r"-old \x1b[31m" in text and "[secret KEY]" in text and "3 more lines" in text
    marks = [row for row in person.all_rows() if row.startswith(("●", "○"))]
    assert len(marks) == 2


async def test_a_preview_says_why_it_may_not_come_about(person: Person, drawn: Drawn) -> None:
    drawn.screen.show_change(Change("a.txt", (), doubt="the text is not there"))
    drawn.screen.show_call(CallEnd("bash", "x", "failed", 0.1, "exit", said=("\x1b[2Jno sk-123456",), left_out=3))
    text = " ".join(row.strip() for row in person.all_rows())
    assert "would change a.txt the text is not there" in text
    assert r"\x1b[2Jno [secret KEY]" in text and "3 more lines" in text


async def test_no_part_of_a_secret_is_drawn_of_a_change(person: Person, drawn: Drawn) -> None:
    lines = ("+" + "x" * 1995 + "sk-123456", "+\tsk-123456")
    drawn.screen.show_change(Change("x" * 1980 + "sk-123456", lines, 0, "sk-123456"))
    drawn.screen.show_call(CallEnd("edit_file", "", "ok", None, "", Change("a", (), 0, "+sk-123456")))
    text = "".join(row.strip() for row in person.all_rows())
    assert "x" * 1980 in text and not any(part in text for part in ("sk-", "123"))


async def test_the_first_piece_after_a_call_is_drawn_at_once(person: Person) -> None:
    screen = Screen(person.output)
    drawn = ConversationScreen(screen, SecretValues({}).stream, clock=lambda: 7.0)  # of which no time passes
    drawn.say("one")
    drawn.show_call(CallEnd("ls", "", "ok", 0.1))
    drawn.say("two")
    assert person.rows()[-1] == "  two"


async def test_what_else_is_told_stands_above_the_open_block(person: Person, drawn: Drawn) -> None:
    drawn.say("growing")
    drawn.screen.notice("a notice")
    assert person.rows() == ["a notice", "  growing"]


async def test_a_dumb_terminal_gets_each_block_once(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    drawn = Drawn(person, SecretValues({}))
    drawn.say("one\n\n", "tw", "o")
    assert person.rows() == ["  one", ""]
    drawn.screen.end_text()
    assert person.rows() == ["  one", "", "  two", ""]
    assert "\x1b" not in person.seen
