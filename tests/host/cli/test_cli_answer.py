"""The top of a command: exactly one object for scripts, whatever the work comes to."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable

import click
import pytest

from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import Interrupted
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock_sources.errors import unavailable
from support.rows import each_row


def _raising(error: BaseException) -> Callable[[], CommandAnswer]:
    def work() -> CommandAnswer:
        raise error

    return work


@each_row(
    ("error", "kind", "code"),
    [
        (KeyboardInterrupt(), "Interrupted", 130),
        (Interrupted(signal.SIGTERM), "Interrupted", 130),
        (KindError("OddError", "odd"), "OddError", 1),
        (unavailable("git+https://example.org/x", "its code"), "SourceFailedError", 1),
        (ValueError("unforeseen"), "ValueError", 3),
    ],
)
def test_a_failure_is_an_object(error: BaseException, kind: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    said = io.StringIO()
    assert CommandReport(Screen(said), True, beside={"ok": False}).answer(_raising(error)) == code
    printed = json.loads(capsys.readouterr().out)
    assert (printed["ok"], printed["error"]["type"]) == (False, kind) and said.getvalue()
    assert CommandReport(Screen(said), False).answer(_raising(error)) == code and not capsys.readouterr().out


def test_a_usage_error_is_left_to_the_command_line() -> None:
    with pytest.raises(click.UsageError):
        CommandReport(Screen(io.StringIO()), True).answer(_raising(click.UsageError("no")))


def test_an_answer_has_its_errors_for_both_and_notes_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    found = CommandAnswer({"a": 1}, lambda screen: screen.title("shown"), 4, [KindError("OddError", "odd")], ["noted"])
    people, scripts = io.StringIO(), io.StringIO()
    assert CommandReport(Screen(people), False).answer(lambda: found) == 4
    assert capsys.readouterr().out == "shown\n" and people.getvalue() == "noted\nerror: odd\n"
    assert CommandReport(Screen(scripts), True).answer(lambda: found) == 4
    printed = json.loads(capsys.readouterr().out)
    assert (printed["a"], printed["error"]["type"]) == (1, "OddError") and scripts.getvalue() == "error: odd\n"
