"""Put questions to the person at the terminal, one after the other, and take the answers.

While a question is open nothing else is drawn. An answer counts for one question only: text typed before it, or in the
first half second, is dropped, and each new drawing of a question starts that again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import TextIO, TypeVar

import anyio
import anyio.lowlevel

from paddock.cli.terminal.line_input import Keyboard
from paddock.cli.terminal.question import Option, Question
from paddock.cli.terminal.render import Screen
from paddock.time_limit import while_running

_Answer = TypeVar("_Answer")


class NobodyAnsweredError(Exception):
    """Raised when the time for an answer is over."""


class Dialogue:
    """Asks on `screen` and listens to `keyboard`; it has the terminal while what `at_terminal` opens is entered."""

    def __init__(
        self,
        screen: Screen,
        keyboard: Keyboard,
        at_terminal: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self.screen = screen
        self._keyboard = keyboard
        self._at_terminal = at_terminal
        self._turn = anyio.Lock()

    @classmethod
    def at(cls, screen: Screen, terminal: TextIO) -> Dialogue:
        """Return a dialogue with the person at `terminal`."""
        return cls(screen, Keyboard(terminal))

    @property
    def has_person(self) -> bool:
        """Whether a person can both see and type."""
        return self.screen.is_terminal and self._keyboard.is_there

    def end(self) -> None:
        """Withdraw the open question, and every later one."""
        self._keyboard.close()

    def resume(self) -> None:
        """Ask again from now on, after `end`."""
        self._keyboard.is_closed = False

    async def ask(
        self,
        question: Question,
        understood: Callable[[str, int], _Answer | None],
        *,
        seconds: float | None = None,
        preface: Callable[[], None] = lambda: None,
    ) -> _Answer | None:
        """Return the interpreted answer, or None if the person has left or the dialogue was ended.

        `understood` gets a line and the number of options that were shown; it returns None for a line that is no
        answer. The `seconds` begin when an answer can be typed. `preface` draws the text before the question.

        Raises:
            NobodyAnsweredError: no answer came in time.
        """
        async with self._at_terminal(), self._turn:
            if self._keyboard.is_closed:
                return None
            preface()
            with self.screen.question():
                shown = await self._put(question)
                with while_running(anyio.move_on_after(seconds)):
                    while (line := await self._keyboard.line()) is not None:
                        answer = understood(line.strip(" \t"), shown)
                        if answer is not None:
                            self.screen.take_answer()
                            return answer
                        shown = await self._put(replace(question, is_again=True))
                    return None
        raise NobodyAnsweredError

    async def _put(self, question: Question) -> int:
        """Draw a question and the invitation to answer it; return how many options could be shown."""
        async with self._keyboard.muted():  # first: an echo would come between two characters of the drawing
            shown = self.screen.put(question)
        self.screen.invite()
        return shown


async def agrees(dialogue: Dialogue | None, lines: Sequence[str], yes: str, no: str) -> bool | None:
    """Return whether the person agrees; None where no person can be asked. An empty answer is no."""
    if dialogue is None or not dialogue.has_person:
        return None
    choices = (Option("yes", yes), Option("no ", no))
    question = Question.of_ours(lines, choices, "type yes or no, and Enter [no]:", "yes or no [no]:")
    words = {"yes": True, "y": True, "no": False, "n": False, "": False}
    answer = await dialogue.ask(question, lambda line, _: words.get(line.casefold()))
    await anyio.lowlevel.checkpoint()  # an interrupted person has given no answer
    return bool(answer)
