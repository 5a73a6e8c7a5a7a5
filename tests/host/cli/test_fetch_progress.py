"""Fetching is shown as bars on a terminal and as two lines a phase elsewhere, and never while a question stands."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest

from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.render import Screen
from paddock_sources.progress import ProgressStep
from support.person import Clock, Person
from support.rows import each_row

_HOSTILE = "git+https://host/\x1b[2J\u202erepo"
_CLEAN = "git+https://host/\\x1b[2J\\u202erepo"


@pytest.fixture
def person() -> Iterator[Person]:
    person = Person(80, 24)
    yield person
    person.close()


class Elsewhere:
    """What is shown where no terminal is, and the time there."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.clock = Clock()
        self.screen = Screen(self.stream)
        self.progress = FetchProgress(self.screen, clock=self.clock)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


def shown(person: Person) -> list[str]:
    """Return the rows with something in them, without what turns before the first."""
    return [row.lstrip("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ").rstrip() for row in person.rows() if row.strip()]


async def until_shown(person: Person, *rows: str) -> None:
    with anyio.fail_after(60):
        while shown(person) != list(rows):
            await anyio.sleep(0.002)


def of(subject: str) -> str:
    return f"git+https://host/{subject}"


# -- elsewhere


def test_elsewhere_a_phase_is_a_line_as_it_begins_and_one_as_it_ends(elsewhere: Elsewhere) -> None:
    with elsewhere.progress as progress:
        progress.step(ProgressStep(of("a"), "fetching"))
        assert elsewhere.lines() == ["fetching git+https://host/a"]
        elsewhere.clock.now += 3.21
        progress.step(ProgressStep(of("a"), "fetching", 1000, 1000, "objects"))
        assert len(elsewhere.lines()) == 1
        progress.step(ProgressStep(of("a"), "unpacking", 0, 70, "files"))
        elsewhere.clock.now += 0.5
        progress.step(ProgressStep(of("a"), "unpacking", 70, 70, "files"))
        progress.finished(of("a"))
    assert elsewhere.lines() == [
        "fetching git+https://host/a",
        "fetching git+https://host/a took 3.2 s: 1000 of 1000 objects",
        "unpacking git+https://host/a",
        "unpacking git+https://host/a took 0.5 s: 70 of 70 files",
    ]


def test_off_a_terminal_two_phases_of_one_thing_do_not_alternate(elsewhere: Elsewhere) -> None:
    with elsewhere.progress as progress:
        for done in range(100):
            progress.step(ProgressStep(of("a"), "fetching", done))
            progress.step(ProgressStep(of("a"), "unpacking", done))
        progress.finished(of("a"))
    assert [line.partition(" took")[0] for line in elsewhere.lines()] == [
        *["fetching git+https://host/a"] * 2,
        *["unpacking git+https://host/a"] * 2,
    ]


def test_elsewhere_something_done_again_is_told_again(elsewhere: Elsewhere) -> None:
    for _ in range(2):
        elsewhere.progress.step(ProgressStep(of("a"), "fetching"))
        elsewhere.progress.finished(of("a"))
    assert elsewhere.lines() == ["fetching git+https://host/a", "fetching git+https://host/a took 0.0 s"] * 2


def test_elsewhere_what_is_under_way_when_it_is_left_ends_then(elsewhere: Elsewhere) -> None:
    with pytest.raises(RuntimeError), elsewhere.progress as progress:
        progress.step(ProgressStep(of("a"), "installing", 3, 0, "packages"))
        raise RuntimeError
    assert elsewhere.lines()[1:] == ["installing git+https://host/a took 0.0 s: 3 packages"]


def test_progress_after_the_end_is_not_shown(elsewhere: Elsewhere) -> None:
    with elsewhere.progress as progress:
        pass
    progress.step(ProgressStep(of("a"), "fetching"))
    progress.finished(of("a"))
    assert elsewhere.lines() == []


def test_what_a_stranger_wrote_does_nothing_and_secrets_are_hidden(elsewhere: Elsewhere) -> None:
    elsewhere.screen.mask = lambda text: text.replace("t0ken", "***")
    elsewhere.progress.step(ProgressStep(f"{_HOSTILE}?t0ken", "fetching", 1, 0, "\x1b[2Jthings"))
    elsewhere.progress.step(ProgressStep("git+https://me:hunter2@host/x", "fetching"))
    elsewhere.progress.finished(f"{_HOSTILE}?t0ken")
    assert elsewhere.lines() == [
        f"fetching {_CLEAN}?***",
        "fetching git+https://host/x",
        f"fetching {_CLEAN}?*** took 0.0 s: 1 \\x1b[2Jthings",
    ]


# -- on a terminal


_BAR = "fetching host/a [##--------] 250 of 1000 objects"


async def test_on_a_terminal_each_has_a_row_and_nothing_is_left_of_it(person: Person) -> None:
    screen = Screen(person.output)
    screen.note("before")
    with FetchProgress(screen, clock=person.clock) as progress:
        progress.step(ProgressStep(of("a"), "fetching", 250, 1000, "objects"))
        await until_shown(person, "before", _BAR)
        progress.step(ProgressStep(of("repository"), "resolving dependencies of"))
        progress.step(ProgressStep(of("b"), "installing", 3, 0, "packages"))
        rows = ("before", _BAR.replace(" [", "   ["), "resolving dependencies of host/repository")
        await until_shown(person, *rows, "installing host/b 3 packages")
        progress.finished(of("b"))
        await until_shown(person, "before", _BAR, rows[2])
    await until_shown(person, "before")
    assert person.seen.count("\x1b[?25l") == person.seen.count("\x1b[?25h") > 0


async def test_a_bar_is_redrawn_at_each_phase_and_now_and_then(person: Person) -> None:
    with FetchProgress(Screen(person.output), clock=person.clock) as progress:
        progress.step(ProgressStep(of("a"), "fetching", 0, 1000, "objects"))
        progress.step(ProgressStep(of("a"), "fetching", 250, 1000, "objects"))
        await until_shown(person, "fetching host/a [----------] 0 of 1000 objects")
        person.clock.now += 1
        progress.step(ProgressStep(of("a"), "fetching", 250, 1000, "objects"))
        await until_shown(person, _BAR)
        progress.step(ProgressStep(of("a"), "unpacking", 0, 3, "files"))
        await until_shown(person, "unpacking host/a [----------] 0 of 3 files")


@pytest.mark.parametrize(
    ("done", "total", "measure"),
    [
        (0, 0, ""),
        (7, 0, " 7 objects"),
        (0, 9, " [----------] 0 of 9 objects"),
        (9, 9, " [##########] 9 of 9 objects"),
        (99, 9, " [##########] 99 of 9 objects"),
        (-5, 9, " [----------] -5 of 9 objects"),
        (7, -1, " 7 objects"),
    ],
)
async def test_a_bar_is_as_full_as_it_says_never_fuller(person: Person, done: int, total: int, measure: str) -> None:
    with FetchProgress(Screen(person.output), clock=person.clock) as progress:
        progress.step(ProgressStep(of("a"), "fetching", done, total, "objects"))
        await until_shown(person, f"fetching host/a{measure}")


async def test_of_many_things_the_first_have_rows_and_the_rest_a_number(person: Person) -> None:
    with FetchProgress(Screen(person.output), clock=person.clock) as progress:
        for number in range(20):
            progress.step(ProgressStep(of(str(number)), "looking up"))
        await until_shown(person, *(f"looking up host/{number}" for number in range(6)), "and 14 more")


@each_row("columns", [8, 10, 20, 40, 60])
async def test_however_narrow_a_terminal_is_a_bar_has_one_row(columns: int) -> None:
    with contextlib.closing(Person(columns, 24)) as person:
        with FetchProgress(Screen(person.output), clock=person.clock) as progress:
            progress.step(ProgressStep(of("x" * 200), "resolving dependencies of", 1, 2, "packages"))
            progress.step(ProgressStep(of("界" * 200), "fetching", 1, 2, "objects"))
            with anyio.fail_after(60):
                while len(shown(person)) != 2:
                    await anyio.sleep(0.002)
        await until_shown(person)


async def test_on_a_terminal_of_few_rows_nothing_scrolls_away() -> None:
    with contextlib.closing(Person(60, 4)) as person:
        screen = Screen(person.output)
        screen.note("before")
        with FetchProgress(screen, clock=person.clock) as progress:
            for number in range(20):
                progress.step(ProgressStep(of(str(number)), "looking up"))
            await until_shown(person, "before", "looking up host/0", "looking up host/1")
        await until_shown(person, "before")
        assert [row for row in person.all_rows() if row] == ["before"]


async def test_lines_are_written_above_the_bars(person: Person) -> None:
    screen = Screen(person.output)
    with FetchProgress(screen, clock=person.clock) as progress:
        progress.step(ProgressStep(of("a"), "fetching", 250, 1000, "objects"))
        await until_shown(person, _BAR)
        screen.warning("something")
        screen.module_line("tool-x", "said")
        await until_shown(person, "warning: something", "tool-x | said", _BAR)
    await until_shown(person, "warning: something", "tool-x | said")


async def test_bars_wait_for_a_question_and_come_back(person: Person) -> None:
    screen = Screen(person.output)
    with FetchProgress(screen, clock=person.clock) as progress:
        progress.step(ProgressStep(of("a"), "fetching", 0, 1000, "objects"))
        progress.step(ProgressStep(of("ends"), "fetching"))
        await until_shown(person, "fetching host/a [----------] 0 of 1000 objects", "fetching host/ends")
        with screen.question():
            person.rows()
            before = person.seen
            person.clock.now += 1
            progress.step(ProgressStep(of("a"), "fetching", 250, 1000, "objects"))
            progress.step(ProgressStep(of("b"), "fetching"))
            progress.finished(of("b"))
            progress.finished(of("ends"))
            await anyio.sleep(0.2)  # longer than it takes what moves to be drawn
            assert person.rows() is not None and person.seen == before
            screen.take_answer()
        await until_shown(person, _BAR)


async def test_bars_go_before_what_else_is_waited_for(person: Person) -> None:
    screen = Screen(person.output)
    screen.show_status("starting the modules")
    await until_shown(person, "starting the modules")
    with FetchProgress(screen, clock=person.clock) as progress:
        progress.step(ProgressStep(of("a"), "fetching"))
        await until_shown(person, "fetching host/a")
        screen.show_status("starting the modules")
        screen.hide_status()
        await anyio.sleep(0.2)
        assert shown(person) == ["fetching host/a"]
    screen.show_status("starting the modules")
    await until_shown(person, "starting the modules")
    screen.hide_status()
    await until_shown(person)


async def test_what_a_stranger_wrote_does_nothing_to_a_terminal(person: Person) -> None:
    screen = Screen(person.output)
    screen.mask = lambda text: text.replace("t0ken", "***")
    with FetchProgress(screen, clock=person.clock) as progress:
        progress.step(ProgressStep(f"{_HOSTILE}?t0ken\n[bold]yes", "fetching", 1, 0, "\r\x1b[2Jthings"))
        await until_shown(person, f"fetching {_CLEAN.partition('://')[2]}?***\\n[bold]yes 1 \\r\\x1b[2Jthings")


async def test_data_goes_where_it_is_meant_beside_bars(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    with FetchProgress(Screen(person.output), clock=person.clock) as progress:
        progress.step(ProgressStep(of("a"), "fetching", 250, 1000, "objects"))
        await until_shown(person, _BAR)
        print("data")
        sys.stderr.write("told\n")
        await until_shown(person, _BAR)
    assert capsys.readouterr() == ("data\n", "told\n")


async def test_many_threads_tell_of_their_work_at_once(person: Person) -> None:
    screen = Screen(person.output)
    screen.note("before")
    failures: list[BaseException] = []

    def work(progress: FetchProgress, number: int) -> None:
        try:
            for done in range(50):
                progress.step(
                    ProgressStep(of(str(number)), "fetching" if done < 25 else "unpacking", done, 50, "objects")
                )
                if done % 10 == 0:
                    screen.note(f"{number} is at {done}")
            progress.finished(of(str(number)))
        except BaseException as error:
            failures.append(error)

    def run() -> None:
        with FetchProgress(screen) as progress:
            threads = [threading.Thread(target=work, args=(progress, number)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, run)
            reading = anyio.create_task_group()
            async with reading:
                reading.start_soon(_keep_reading, person, reading.cancel_scope)
    assert not failures
    told = [row for row in person.all_rows() if row]
    assert told[0] == "before" and sorted(told[1:]) == sorted(
        f"{number} is at {done}" for number in range(8) for done in range(0, 50, 10)
    )


async def _keep_reading(person: Person, until: anyio.CancelScope) -> None:
    """Read what is written, so that the terminal has room for more, up to the last of it."""
    while person.seen.count(" is at 40") < 8:
        person.rows()
        await anyio.sleep(0.002)
    until.cancel()
