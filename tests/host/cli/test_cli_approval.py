from __future__ import annotations

import asyncio
import io
import os
import pty
from collections.abc import Iterator
from typing import TextIO

import anyio
import pytest

from paddock.cli.approval import TerminalApproval
from paddock.cli.render import Screen


class Shown(io.StringIO):
    """What a person at a terminal sees."""

    def isatty(self) -> bool:
        return True

    async def until(self, text: str) -> None:
        while text not in self.getvalue():
            await asyncio.sleep(0.005)


class Keyboard:
    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.terminal: TextIO = open(slave, encoding="utf-8")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def close(self) -> None:
        self.terminal.close()
        os.close(self._master)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    return Shown()


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    keyboard = Keyboard()
    yield keyboard
    keyboard.close()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(60.0, "within 60 s"), (90.5, "within 90.5 s"), (1e300, "within 86400 s"), (float("nan"), "within 86400 s")],
)
async def test_a_person_is_told_how_long_there_is_to_answer(
    shown: Shown, keyboard: Keyboard, seconds: float, told: str
) -> None:
    approval = TerminalApproval(Screen(shown), keyboard.terminal)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(approval.request_approval, "Go on?", ["Allow", "Deny"], seconds, "deny")
            await shown.until(f"without an answer {told} it is deny: ")
            approval.withdraw()


async def test_of_very_many_options_a_few_are_shown_and_only_those_can_be_chosen(
    shown: Shown, keyboard: Keyboard
) -> None:
    options = [f"option {number}" for number in range(1, 100_001)]
    approval = TerminalApproval(Screen(shown), keyboard.terminal)
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await approval.request_approval("Go on?", options, 60.0, "deny"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await shown.until("it is deny: ")
            for hidden in ("21", "option 21"):
                before = shown.getvalue().count("type a number from 1 to 20")
                keyboard.type(f"{hidden}\n")
                while shown.getvalue().count("type a number from 1 to 20") == before:
                    await asyncio.sleep(0.005)
            keyboard.type("20\n")
    assert answers == ["option 20"]
    assert "99980 more options are not shown" in shown.getvalue()
    assert len(shown.getvalue()) < 3000


async def test_a_question_of_any_size_leaves_its_end_on_the_screen(shown: Shown, keyboard: Keyboard) -> None:
    approval = TerminalApproval(Screen(shown), keyboard.terminal)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(
                approval.request_approval, "line \x1b[2J\n" * 100_000, ["a\n" * 100_000, "Deny"], 60.0, "deny"
            )
            await shown.until("it is deny: ")
            approval.withdraw()
    text = shown.getvalue()
    assert len(text) < 20_000 and len(text.splitlines()) < 60
    assert "characters are not shown" in text
    (option,) = [line for line in text.splitlines() if line.startswith("  1) ")]
    assert option.endswith("…")
