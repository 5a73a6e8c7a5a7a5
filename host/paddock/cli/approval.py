"""Ask the person at the terminal whether something may happen.

What is asked was written by a module: it is shown framed, escaped and cut to what a person reads, and what was typed
before it stood there does not count as an answer. Questions are asked one after the other. Without a terminal nobody is
asked, and the default holds.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Sequence
from typing import Final, Literal, TextIO

import anyio

from paddock_sdk.contract.approval import ApprovalTimeoutError

from .render import Screen

_LONGEST: Final = 24 * 3600.0  # seconds; a module may name any number, and nobody sits there for longer
_LINE_BYTES: Final = 4096  # what a terminal hands over at most as one line
_MAX_OPTIONS: Final = 20  # of a question; they fit on a screen together with it


class TerminalApproval:
    """An approval system that asks on `screen` and reads from `terminal`."""

    def __init__(self, screen: Screen, terminal: TextIO) -> None:
        self._screen = screen
        self._terminal = terminal
        self._turn = anyio.Lock()
        self._line: asyncio.Future[str | None] | None = None
        self._is_withdrawn = False

    def withdraw(self) -> None:
        """Answer the question that is being asked, and every later one, with deny: the person wants out."""
        self._is_withdrawn = True
        self._take(None)

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the option the person chose; without a terminal, the one that is called as `default`.

        Of more options than fit on a screen, only those that are shown can be chosen.

        Raises:
            ApprovalTimeoutError: no answer came in time, or no option is called as the default.
        """
        if not (self._screen.is_terminal and self._terminal.isatty()):
            self._screen.warning(f"nobody is at a terminal to be asked, so the answer is {default}: {prompt}")
            return _called(default, options)
        async with self._turn:
            if self._is_withdrawn:
                return "deny"
            # Keys pressed while nothing was asked must not decide anything.
            termios.tcflush(self._terminal, termios.TCIFLUSH)
            seconds = _bounded(timeout)
            shown = options[:_MAX_OPTIONS]
            self._screen.ask(prompt, shown, default, seconds=seconds, left_out=len(options) - len(shown))
            try:
                with anyio.move_on_after(seconds):
                    return await self._answer(shown)
                self._screen.note(f"no answer; the default is {default}")
            finally:
                self._screen.end_of_question()
        raise ApprovalTimeoutError(f"nobody answered within {timeout:g} s")

    async def _answer(self, options: Sequence[str]) -> str:
        while (line := await self._read_line()) is not None:
            chosen = _chosen(line.strip(), options)
            if chosen is not None:
                return chosen
            self._screen.note(f"type a number from 1 to {len(options)}, then Enter")
        return "deny"  # the end of the input, or of the person's patience, allows nothing

    async def _read_line(self) -> str | None:
        loop = asyncio.get_running_loop()
        self._line = loop.create_future()
        descriptor = self._terminal.fileno()
        loop.add_reader(descriptor, self._on_input, descriptor)
        try:
            return await self._line
        finally:
            loop.remove_reader(descriptor)
            self._line = None

    def _on_input(self, descriptor: int) -> None:
        try:
            read = os.read(descriptor, _LINE_BYTES)
        except OSError:  # the terminal is gone
            read = b""
        self._take(read.decode(errors="replace") if read else None)

    def _take(self, line: str | None) -> None:
        if self._line is not None and not self._line.done():
            self._line.set_result(line)


def _chosen(line: str, options: Sequence[str]) -> str | None:
    if line.isascii() and line.isdigit():
        number = int(line[:6])
        return options[number - 1] if 1 <= number <= len(options) else None
    return next((option for option in options if line and option.casefold() == line.casefold()), None)


def _called(name: str, options: Sequence[str]) -> str:
    for option in options:
        if option.casefold() == name:
            return option
    raise ApprovalTimeoutError(f"nobody can be asked, and no option is called `{name}`")


def _bounded(seconds: float) -> float:
    # `min` and `max` in this order also turn what is not a number into the longest wait.
    return max(0.0, min(_LONGEST, seconds))
