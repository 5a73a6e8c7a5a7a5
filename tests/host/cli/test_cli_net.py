"""Whatever comes out of a command's body ends as a failure that is told, escaped, and as JSON where asked for."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest

from paddock.cli import main
from paddock.cli.commands import paddock
from paddock.workers import early_template


class Beyond(BaseException):
    pass


def _command(line: str) -> Callable[[], int]:
    return lambda: paddock.main(line.split(), standalone_mode=False)


_call, _run, _demo, _doctor = map(
    _command, ("call tool-todo x --json", "run plan.yaml hello --json", "demo --json", "doctor --json")
)


@pytest.fixture(autouse=True)
def _only_what_is_around_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_template, "begun", lambda locate: nullcontext())  # no body is run
    monkeypatch.setattr("paddock.cli.gc", Mock(spec=gc))  # a command sets its process's own, which is this one here


@pytest.fixture
def ended_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    def prepare(error: BaseException) -> None:
        def end(body: Coroutine[Any, Any, object]) -> None:
            body.close()
            raise error

        monkeypatch.setattr(asyncio, "run", end)

    return prepare


@pytest.mark.parametrize("command", [_call, _run, _demo, _doctor])
@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError("no \x1b[2J"),
        Beyond("no \x1b[2J"),
        BaseExceptionGroup("no \x1b[2J", [asyncio.CancelledError()]),
        ValueError("no \x1b[2J"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unforeseen_error_is_a_defect_that_is_shown_escaped(
    command: Callable[[], int],
    error: BaseException,
    ended_by: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended_by(error)
    assert command() == 3
    shown = capsys.readouterr()
    assert r"no \x1b[2J" in shown.err and "please report it" in shown.err
    assert "\x1b" not in shown.err + shown.out
    told = json.loads(shown.out)
    assert "no " in told["error"]["message"]
    if command is _call:
        assert told.keys() == {"success", "output", "error", "resources", "unreported_programs"}


@pytest.mark.parametrize("command", [_call, _run, _demo, _doctor])
def test_an_interruption_is_told_as_one(
    command: Callable[[], int], ended_by: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    ended_by(KeyboardInterrupt())
    assert command() == 130
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "Interrupted"


@pytest.mark.parametrize("command", [_call, _run, _demo, _doctor])
def test_an_exit_passes(command: Callable[[], int], ended_by: Callable[[BaseException], None]) -> None:
    ended_by(SystemExit(9))
    with pytest.raises(SystemExit) as caught:
        command()
    assert caught.value.code == 9


@pytest.mark.parametrize("error", [asyncio.CancelledError("no \x1b[2J"), Beyond("no \x1b[2J")])
def test_the_entry_lets_no_traceback_of_the_interpreters_out(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def demo(as_json: bool) -> int:
        raise error

    monkeypatch.setattr("paddock.cli.demo_command.demo.callback", demo)
    with pytest.raises(SystemExit) as caught:
        main(["demo"])
    assert caught.value.code == 3
    shown = capsys.readouterr().err
    assert r"no \x1b[2J" in shown and "\x1b" not in shown
