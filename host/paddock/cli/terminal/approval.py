"""Ask the person at the terminal whether something may happen.

A module wrote the question. The host names the module; the rest is framed, escaped and cut to fit the screen. Questions
are asked one after the other. A module that does not stop asking is denied everything from then on. Without a terminal
no question is asked, and the default holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, TextIO

from paddock.cli.terminal.dialogue import Dialogue, NobodyAnsweredError
from paddock.cli.terminal.question import Option, Question
from paddock.cli.terminal.render import Screen
from paddock.lookalikes import not_as_it_looks
from paddock.session.requester import Requester, current_requester
from paddock_sdk.contract.approval import ApprovalTimeoutError

_LONGEST: Final = 24 * 3600.0  # seconds; a module may name any number, and no person waits longer
_MAX_OPTIONS: Final = 20  # of a question, even on a high terminal
_MAX_IN_A_ROW: Final = 20  # questions of one module, each soon after the one before
_PAUSE: Final = 30.0  # seconds without a question, after which it is not in a row with the next
_YES: Final = ("yes", "allow", "allow once", "approve")
_NO: Final = ("no", "deny", "reject")
_DENIED: Final = "deny"


class TerminalApproval:
    """An approval system that asks through `dialogue`; `clock` is a monotonic one.

    `preview` is called with the question, right before a person sees it, to show its subject.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        *,
        clock: Callable[[], float] = time.monotonic,
        preview: Callable[[str], None] = lambda prompt: None,
    ) -> None:
        self._dialogue = dialogue
        self._preview = preview
        self._screen = dialogue.screen
        self._clock = clock
        self._rows: dict[Requester | None, _Row] = {}
        self._asked = 0
        self._is_withdrawn = False

    @classmethod
    def at(cls, screen: Screen, terminal: TextIO) -> TerminalApproval:
        """Return an approval system that asks the person at `terminal`."""
        return cls(Dialogue.at(screen, terminal))

    @property
    def is_attended(self) -> bool:
        """Whether a person can be asked at all; a session reads it, to give the reason for an answer."""
        return self._dialogue.has_person

    def withdraw(self) -> None:
        """Answer the present question, and every later one, with deny: the person wants to leave."""
        self._is_withdrawn = True
        self._dialogue.end()

    def resume(self) -> None:
        """Ask again from now on, after `withdraw`."""
        self._is_withdrawn = False
        self._dialogue.resume()

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the person's choice; without a terminal, the option with the name in `default`.

        Of more options than fit on a screen, only those that are shown can be chosen.

        Raises:
            ApprovalTimeoutError: no answer came in time, or no option has the default's name.
        """
        requester = current_requester()
        if not self.is_attended:
            to = f" to {_named(requester)}" if requester is not None else ""
            self._screen.warning(f"there is no terminal to ask at, so the answer{to} is {default}: {prompt}")
            return _called(default, options)
        if self._is_withdrawn or self._is_flood(requester):
            return _DENIED
        seconds = _bounded(timeout)
        offered = options[:_MAX_OPTIONS]
        named = [] if requester is None else [requester.on_behalf_of]
        if warning := not_as_it_looks("\n".join([*named, *offered, prompt])):
            self._screen.warning(f"not everything that {_named(requester)} asks is as it looks: {warning}")
        self._asked += 1
        question = Question(
            title=f"{_named(requester)} asks (question {self._asked})",
            text=prompt
            if requester is None or not requester.on_behalf_of
            else f"for {requester.on_behalf_of}: {prompt}",
            options=[Option(f"{number})", option) for number, option in enumerate(offered, start=1)],
            prompts=lambda count: _prompts(count, seconds, default),
            left_out=len(options) - len(offered),
        )
        try:
            answer = await self._dialogue.ask(
                question,
                lambda line, shown: _chosen(line, offered[:shown]),
                seconds=seconds,
                preface=lambda: self._preview(prompt),
            )
        except NobodyAnsweredError:
            self._screen.note(f"no answer; the default is {default}")
            raise ApprovalTimeoutError(f"no answer came within {timeout:g} s") from None
        finally:
            self._row_of(requester).end(self._clock())
        return _DENIED if answer is None else answer  # the end of the input, or of the time, permits nothing

    def _is_flood(self, requester: Requester | None) -> bool:
        row = self._row_of(requester)
        row.add(self._clock())
        if row.length == _MAX_IN_A_ROW + 1:
            self._screen.warning(
                f"{_named(requester)} asked {_MAX_IN_A_ROW} questions in a row; "
                f"what else it asks is denied until it has asked nothing for {_PAUSE:g} s"
            )
        return row.length > _MAX_IN_A_ROW

    def _row_of(self, requester: Requester | None) -> _Row:
        key = (
            None if requester is None else Requester(requester.kind, requester.name)
        )  # the rest may be changed by the module
        return self._rows.setdefault(key, _Row())


class _Row:
    """A series of questions of one module: how many, and when the last one ended."""

    def __init__(self) -> None:
        self.length = 0
        self._last = float("-inf")

    def add(self, now: float) -> None:
        """Count a question."""
        self.length = 1 if now - self._last > _PAUSE else self.length + 1
        self._last = now

    def end(self, now: float) -> None:
        """Note that the question has ended."""
        self._last = now


def _named(requester: Requester | None) -> str:
    return "a module" if requester is None else f"module `{requester.name}` ({requester.kind})"


def _prompts(count: int, seconds: float, default: str) -> Sequence[str]:
    number = "1" if count == 1 else f"a number from 1 to {count}"
    return (
        f"type {number} and Enter; without an answer within {seconds:.15g} s it is {default}:",
        f"type {number} and Enter; in {seconds:.15g} s it is {default}:",
        f"1 to {count} and Enter; in {seconds:.15g} s {default}:",
        f"1-{count}:",
    )


def _chosen(line: str, options: Sequence[str]) -> str | None:
    if line.isascii() and line.isdigit():
        number = int(line[:6])
        return options[number - 1] if 1 <= number <= len(options) else None
    typed = line.casefold()
    # A word stands for whole options alone: a module writes these, as in `No risk: allow everything`.
    meant = _YES if typed in ("y", "yes") else _NO if typed in ("n", "no") else (typed,)
    found = [option for option in options if option.casefold() in meant]
    exact = next((option for option in options if typed and option.casefold() == typed), None)
    return exact or (found[0] if typed and len(found) == 1 else None)


def _called(name: str, options: Sequence[str]) -> str:
    for option in options:
        if option.casefold() == name:
            return option
    raise ApprovalTimeoutError(f"there is no terminal to ask at, and no option is called `{name}`")


def _bounded(seconds: float) -> float:
    # `min` and `max` in this order also turn what is not a number into the longest wait.
    return max(0.0, min(_LONGEST, seconds))
