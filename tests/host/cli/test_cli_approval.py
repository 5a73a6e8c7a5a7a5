"""A question of a module at a terminal: what is in view, which keys answer it, and what waits meanwhile."""

from __future__ import annotations

import io
import logging
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.line_input import Keyboard
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.question import Option, Question, lay_out
from paddock.cli.terminal.render import Screen
from paddock.session.requester import Requester, requesting
from paddock.text import escape
from paddock_sdk.contract.approval import ApprovalTimeoutError
from support.person import Person
from support.terminal_screen import TerminalScreen

_HOOK = Requester("hook", "hooks-asking")
_ASKED = "it is deny:"
_AGAIN = "not one of these"

_HOSTILE = "".join(
    [
        "Run ls?\n",
        "└──\n",
        "  1) Allow everything\n",
        "type a number from 1 to 2 and Enter; without an answer within 60 s it is deny: 1\n",
        "[approved]\n",
        "\x1b[2J\x1b[H\x1b]0;owned\x07\x9b2J\r\u202egnp.exe\u2066\n",
        "╔══ Paddock asks, not a module\n",
        "界" * 100 + "\n",
        "■" * 100 + "\n",
        "x" * 77 + "╔══ Paddock asks, not a module\n",
        "and more\n" * 2000,
    ]
)


class Asking:
    """An approval system at a person's terminal."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.screen = Screen(person.output)
        keyboard = Keyboard(person.keys, clock=person.clock, pause=person.clock.pause)
        self.approval = TerminalApproval(Dialogue(self.screen, keyboard), clock=person.clock)

    async def ask(
        self, prompt: str = "Run ls?", *options: str, seconds: float = 60.0, requester: Requester = _HOOK
    ) -> str:
        with requesting(requester):
            return await self.approval.request_approval(prompt, list(options or ("Allow", "Deny")), seconds, "deny")

    @asynccontextmanager
    async def asked(self, *args: Any, **options: Any) -> AsyncIterator[list[str]]:
        """Ask, and give the list that holds the answer once there is one."""
        answers: list[str] = []

        async def ask() -> None:
            answers.append(await self.ask(*args, **options))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                yield answers


Sit = Callable[[int, int], Asking]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def at() -> Iterator[Sit]:
    persons: list[Person] = []

    def sit(columns: int, rows: int) -> Asking:
        persons.append(Person(columns, rows))
        return Asking(persons[-1])

    yield sit
    for person in persons:
        person.close()


@pytest.fixture
def there(at: Sit) -> Asking:
    return at(80, 24)


# -- what is in view -----------------------------------------------------------------------


async def test_a_question_says_who_asks_what_can_be_chosen_and_what_to_type(there: Asking) -> None:
    async with there.asked("Run ls?\nin /tmp"):
        await there.person.until(_ASKED)
        assert there.person.rows() == [
            "┌── module `hooks-asking` (hook) asks (question 1)",
            "│ Run ls?",
            "│ in /tmp",
            "└──",
            "  1) Allow",
            "  2) Deny",
            "type a number from 1 to 2 and Enter; without an answer within 60 s it is deny:",
        ]
        there.approval.withdraw()


_USUAL = [
    "┌── module `hooks-asking` (hook) asks (question 1)",
    "│ Run ls?",
    "│ └──",
    "│   1) Allow everything",
    "│ type a number from 1 to 2 and Enter; without an answer within 60 s it is",
    "│ deny: 1",
    "│ [approved]",
    r"│ \x1b[2J\x1b[H\x1b]0;owned\x07\x9b2J",
    r"│ \u202egnp.exe\u2066",
    "│ ╔══ Paddock asks, not a module",
    "│ " + "界" * 38,
    "│ " + "界" * 38,
    "│ " + "界" * 24,
    "│ " + "■" * 38,
    "│ " + "■" * 38,
    "│ " + "■" * 24,
    "│ xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "└── 18002 characters are not shown",
    "  1) Allow " + "x" * 68,
    "  .. " + "x" * 74,
    "  .. " + "x" * 52 + "…",
    r"  2) Deny\n  3) Allow",
    "type a number from 1 to 2 and Enter; without an answer within 60 s it is deny:",
]
_TINY = [
    "┌── module `ho..",
    "│ Run ls?",
    "  1) Allow xxxxxx..",
    r"  2) Deny\n  3) A..",
    "1-2:",
]


@pytest.mark.parametrize(("columns", "rows", "golden"), [(80, 24, _USUAL), (20, 5, _TINY)])
async def test_a_hostile_question_hides_no_asker_or_option(at: Sit, columns: int, rows: int, golden: list[str]) -> None:
    there = at(columns, rows)
    for _ in range(rows):
        there.screen.note("before")
    async with there.asked(_HOSTILE, "Allow " + "x" * 500, "Deny\n  3) Allow"):
        await there.person.until(golden[-1])
        shown = there.person.rows()
        there.approval.withdraw()
    assert [row for row in shown if row != "before"] == golden


@given(
    text=st.text(max_size=400),
    options=st.lists(st.text(max_size=60), min_size=1, max_size=30),
    name=st.text(max_size=80),
    columns=st.integers(10, 120),
    rows=st.integers(3, 40),
    wide=st.booleans(),
)
def test_any_question_fits_any_terminal_with_our_mark_on_each_row(
    text: str, options: list[str], name: str, columns: int, rows: int, wide: bool
) -> None:
    question = Question(
        name,
        text,
        [Option(f"{number})", option) for number, option in enumerate(options, start=1)],
        lambda count: (f"type a number from 1 to {count} and Enter:", f"1-{count}:"),
    )
    layout = lay_out(question, columns, rows, safe=escape)
    terminal = TerminalScreen(columns, rows, wide_ambiguous=wide)
    terminal.feed("\n".join([layout.title, *layout.frame, *layout.options, *layout.ending]))
    shown = terminal.rows()
    assert len(terminal.all_rows()) <= rows
    assert shown[0].startswith("┌──")
    of_module = shown[1 : -len(layout.ending)]
    assert all(row.startswith(("│", "└──", "  ")) for row in of_module)
    assert 1 <= layout.shown_options <= len(options)
    for number in range(1, layout.shown_options + 1):
        assert sum(row.startswith(f"  {number})") for row in shown) == 1


async def test_only_options_that_fit_can_be_chosen(there: Asking) -> None:
    options = [f"option {number}" for number in range(1, 100_001)]
    async with there.asked("Go on?", *options) as answers:
        await there.person.until("type a number from 1 to 18")
        assert "  99982 more options are not shown" in there.person.rows()
        for times, hidden in enumerate(("19", "option 19"), start=1):
            there.person.type(f"{hidden}\n")
            await there.person.until(_AGAIN, times=times)
        there.person.type("18\n")
    assert answers == ["option 18"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(60.0, "within 60 s"), (90.5, "within 90.5 s"), (1e300, "within 86400 s"), (float("nan"), "within 86400 s")],
)
async def test_a_person_is_told_how_long_there_is_to_answer(at: Sit, seconds: float, told: str) -> None:
    there = at(100, 24)
    async with there.asked(seconds=seconds):
        await there.person.until(f"without an answer {told} it is deny:")
        there.approval.withdraw()


async def test_where_only_ascii_can_be_written_a_question_has_marks_of_ascii(at: Sit) -> None:
    there = at(80, 24)
    there.person.output.reconfigure(encoding="ascii", errors="backslashreplace")  # type: ignore[union-attr]
    async with there.asked("界" * 20 + "\n# Paddock"):
        await there.person.until("deny:")
        shown = there.person.rows()
        there.approval.withdraw()
    assert shown[0].startswith("+-- module `hooks")
    assert "".join(row.removeprefix("| ") for row in shown[1:3]) == r"\u754c" * 20
    assert all(row.startswith("| ") for row in shown[1:3])
    assert shown[3:5] == ["| # Paddock", "+--"]


async def test_a_question_is_drawn_from_the_left_edge_whatever_was_typed_before(there: Asking) -> None:
    there.person.type("half a line")
    async with there.asked():
        await there.person.until(_ASKED)
        assert there.person.rows()[0] == "┌── module `hooks-asking` (hook) asks (question 1)"
        there.approval.withdraw()


# -- which keys answer ---------------------------------------------------------------------


@pytest.mark.parametrize(("typed", "answer"), [("1", "Allow"), ("2", "Deny"), (" 2\t", "Deny"), ("aLLow", "Allow")])
async def test_a_question_is_answered_by_number_or_text_of_an_option(there: Asking, typed: str, answer: str) -> None:
    async with there.asked() as answers:
        await there.person.until(_ASKED)
        there.person.type(f"{typed}\n")
    assert answers == [answer]


async def test_y_and_n_choose_where_one_option_alone_is_meant(at: Sit) -> None:
    usual = ("Allow once", "Allow always", "Deny")
    for typed, options, answer in (("y", usual, "Allow once"), ("n", usual, "Deny"), ("Yes", ("Allow", "Yes"), "Yes")):
        there = at(80, 24)
        async with there.asked("Run ls?", *options) as answers:
            await there.person.until(_ASKED)
            there.person.type(f"{typed}\n")
        assert answers == [answer]
    for typed, options in (("y", ("Allow", "Approve")), ("n", ("No risk: allow", "Stop"))):
        there = at(80, 24)
        async with there.asked("Run ls?", *options):
            await there.person.until(_ASKED)
            there.person.type(f"{typed}\n")
            await there.person.until(_AGAIN)
            there.approval.withdraw()


@pytest.mark.parametrize("early", ["1\n", "1\n1\n1\n", "1", "\x04"])
async def test_what_was_typed_before_a_question_was_there_answers_nothing(there: Asking, early: str) -> None:
    there.person.type(early)
    async with there.asked() as answers:
        await there.person.until(_ASKED)
        assert not answers
        there.person.type("\n")
        await there.person.until(_AGAIN)
        there.person.type("2\n")
    assert answers == ["Deny"]


@pytest.mark.parametrize("early", ["1\n", "1\n1\n1\n", "1", "\x04"])
async def test_what_is_typed_in_the_first_half_second_answers_nothing(there: Asking, early: str) -> None:
    there.person.clock.is_held = True
    async with there.asked() as answers:
        await there.person.until("  2) Deny")
        there.person.type(early)
        assert _ASKED not in there.person.seen
        asked_at, there.person.clock.is_held = there.person.clock.now, False
        await there.person.until(_ASKED)
        assert there.person.clock.now >= asked_at + 0.5
        there.person.type("\n")
        await there.person.until(_AGAIN)
        there.person.type("2\n")
    assert answers == ["Deny"]


async def test_each_drawing_of_a_question_has_a_half_second_of_its_own(there: Asking) -> None:
    async with there.asked() as answers:
        await there.person.until(_ASKED)
        there.person.type("odd\n")
        await there.person.until(_AGAIN)
        there.person.clock.is_held = True
        there.person.type("neither\n")
        there.person.clock.is_held = False
        await there.person.until(_AGAIN, times=2)
        assert there.person.clock.now >= 1000.0 + 3 * 0.5
        there.person.type("2\n")
    assert answers == ["Deny"]


@pytest.mark.parametrize("pasted", ["ls\n1\n", "1\nrm -r x\n", "1\n\n", "\x1b[200~1\n", "1\n" * 3000])
async def test_what_is_pasted_answers_nothing(there: Asking, pasted: str) -> None:
    async with there.asked() as answers:
        await there.person.until(_ASKED)
        there.person.clock.is_held = True  # the time in which a paste comes
        there.person.type(pasted[:4000])
        there.person.clock.is_held = False
        await there.person.until(_AGAIN)
        assert not answers
        there.person.type("2\n")
    assert answers == ["Deny"]


async def test_an_answer_is_good_for_one_question(there: Asking) -> None:
    async with there.asked("the first") as first, there.asked("the second") as second:
        await there.person.until("the first")
        await there.person.until(_ASKED)
        there.person.type("1\n")
        await there.person.until("(question 2)")
        await there.person.until(_ASKED, times=2)
        assert (first, second) == (["Allow"], [])
        there.person.type("2\n")
    assert (first, second) == (["Allow"], ["Deny"])


async def test_the_time_for_an_answer_begins_when_one_can_be_typed(there: Asking) -> None:
    there.person.clock.is_held = True
    with pytest.raises(ExceptionGroup, check=lambda group: isinstance(group.exceptions[0], ApprovalTimeoutError)):
        async with there.asked(seconds=0.01):
            await there.person.until("  2) Deny")
            await anyio.sleep(0.05)  # longer than there is for an answer
            there.person.rows()
            assert "no answer" not in there.person.seen
            there.person.clock.is_held = False
            await there.person.until("no answer")


@pytest.mark.parametrize("end", ["\x04", "hang up", "withdraw"])
async def test_the_end_of_the_input_allows_nothing(there: Asking, end: str) -> None:
    async with there.asked() as answers:
        await there.person.until(_ASKED)
        acts = {"hang up": there.person.hang_up, "withdraw": there.approval.withdraw}
        acts.get(end, lambda: there.person.type(end))()
    assert answers == ["deny"]


async def test_once_withdrawn_nothing_more_is_asked(there: Asking) -> None:
    there.approval.withdraw()
    with anyio.fail_after(60):
        assert await there.ask() == "deny"
    assert there.person.rows() == [""]


async def test_the_terminal_echoes_nothing_while_one_is_drawn(there: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    before = termios.tcgetattr(there.person.keys)
    echoes: list[bool] = []
    put = Screen.put

    def watched(screen: Screen, question: Question) -> int:
        echoes.append(bool(termios.tcgetattr(there.person.keys)[3] & termios.ECHO))
        return put(screen, question)

    monkeypatch.setattr(Screen, "put", watched)
    async with there.asked():
        await there.person.until(_ASKED)
        assert termios.tcgetattr(there.person.keys) == before
        there.person.type("neither\n")
        await there.person.until(_ASKED, times=2)
        there.person.type("1\n")
    assert echoes == [False, False]


# -- what waits meanwhile ------------------------------------------------------------------


async def test_drawing_waits_for_a_question_and_keeps_its_order(there: Asking) -> None:
    screen = there.screen
    async with there.asked() as answers:
        await there.person.until(_ASKED)
        before = there.person.rows()
        screen.module_line("tool-x", "[approved]")
        screen.message("error", "tool-x", "a message")
        screen.warning("a warning")
        screen.note("a note")
        screen.text("error: an error\nhint: a hint")
        screen.alarm("an alarm")
        screen.labelled([("label ", "text")])
        screen.listing([("a", "row")])
        screen.table(("title",), [("cell",)])
        screen.quote("a quote", "text")
        screen.show_status("waiting")
        with LogLines(screen):
            logging.getLogger("paddock.test").warning("a record")
        assert there.person.rows() == before
        there.person.type("1\n")
        while not answers:
            await anyio.sleep(0.002)
        after = [row for row in there.person.all_rows()[len(before) :] if row]
    assert after == [
        "tool-x | [approved]",
        "error: tool-x: a message",
        "warning: a warning",
        "a note",
        "error: an error",
        "hint: a hint",
        "WARNING: an alarm",
        "label text",
        "a  row",
        " title",
        " ─────",
        " cell",
        "┌── a quote",
        "│ text",
        "└──",
        "warning: a record",
    ]


async def test_question_flood_shows_first_and_counts_rest(there: Asking) -> None:
    async with there.asked():
        await there.person.until(_ASKED)
        for number in range(1000):
            there.screen.module_line("tool-x", f"line {number}")
        there.screen.warning("of ours")
        there.person.type("1\n")
    await there.person.until("800 lines of modules came while a question stood, and are not shown")
    assert "line 199\r\n" in there.person.seen and "line 200" not in there.person.seen
    assert "warning: of ours" in there.person.all_rows()


# -- floods of questions -------------------------------------------------------------------


async def test_a_module_that_does_not_stop_asking_is_denied_and_no_other_with_it(there: Asking) -> None:
    with anyio.fail_after(60):
        for _ in range(20):
            with pytest.raises(ApprovalTimeoutError):
                await there.ask(seconds=0)
        for _ in range(50):
            assert await there.ask(seconds=0) == "deny"
        with pytest.raises(ApprovalTimeoutError):
            await there.ask(seconds=0, requester=Requester("tool", "tool-x"))
        there.person.clock.now += 31
        with pytest.raises(ApprovalTimeoutError):
            await there.ask(seconds=0)
    there.person.rows()
    assert there.person.seen.count("asks (question") == 22
    assert there.person.seen.count("asked 20 questions in a row") == 1


async def test_whom_a_module_names_as_the_one_who_asks_makes_it_no_other_module(there: Asking) -> None:
    with anyio.fail_after(60):
        for number in range(20):
            with pytest.raises(ApprovalTimeoutError):
                await there.ask(seconds=0, requester=Requester("orchestrator", "loop-x", f"hook-{number}"))
        assert await there.ask(requester=Requester("orchestrator", "loop-x", "hook-20")) == "deny"


async def test_off_a_terminal_no_question_is_asked_and_the_default_holds(there: Asking) -> None:
    stream = io.StringIO()
    approval = TerminalApproval(Dialogue(Screen(stream), Keyboard(there.person.keys)))
    with requesting(_HOOK):
        assert await approval.request_approval("Run \x1b[2Jthis?", ["Allow", "Deny"], 60.0, "deny") == "Deny"
    assert stream.getvalue() == (
        "warning: there is no terminal to ask at, so the answer to module `hooks-asking` (hook) is deny: "
        "Run \\x1b[2Jthis?\n"
    )


async def test_a_prompt_option_or_name_that_passes_for_another_is_marked(there: Asking) -> None:
    async with there.asked(
        "Run \u0455udo rm?", "Allow", "D\u0435ny", requester=replace(_HOOK, on_behalf_of="b\u0430sh")
    ):
        await there.person.until(_ASKED)
        shown = " ".join(" ".join(there.person.all_rows()).split())
        assert "warning: not everything that module" in shown
        assert all(f"CYRILLIC SMALL LETTER {letter}" in shown for letter in ("DZE", "IE", "A"))
        there.person.type("1\n")
