"""Ask the person at the terminal whether something may happen.

A module wrote the question. The host names the module; the rest is framed, escaped and cut to fit the screen. Questions
are asked one after the other. A module that does not stop asking is denied everything from then on. Without a terminal
no question is asked, and the default holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
    """An approval system that asks through `dialogue`; `clock` is a monotonic one."""

    def __init__(self, dialogue: Dialogue, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._dialogue = dialogue
        self._preview: Callable[[str], None] = lambda prompt: None
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

    def preview_by(self, preview: Callable[[str], None]) -> None:
        """Call `preview` with each question, right before a person sees it, to show its subject."""
        self._preview = preview

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
        who = "a module" if requester is None else f"module `{requester.name}` ({requester.kind})"
        if not self.is_attended:
            to = f" to {who}" if requester is not None else ""
            self._screen.warning(f"there is no terminal to ask at, so the answer{to} is {default}: {prompt}")
            return _called(default, options)
        # Of the requester, the module may change the rest.
        key = None if requester is None else Requester(requester.kind, requester.name)
        row = self._rows.setdefault(key, _Row())
        if self._is_withdrawn or self._is_flood(row, who):
            return _DENIED
        # `min` and `max` in this order also turn what is not a number into the longest wait.
        seconds = max(0.0, min(_LONGEST, timeout))
        offered = options[:_MAX_OPTIONS]
        named = [] if requester is None else [requester.on_behalf_of]
        if warning := not_as_it_looks("\n".join([*named, *offered, prompt])):
            self._screen.warning(f"not everything that {who} asks is as it looks: {warning}")
        self._asked += 1
        question = Question(
            title=f"{who} asks (question {self._asked})",
            text=f"for {requester.on_behalf_of}: {prompt}" if requester and requester.on_behalf_of else prompt,
            options=[Option(f"{number})", option) for number, option in enumerate(offered, start=1)],
            prompts=lambda count: _prompts(count, seconds, default),
            left_out=len(options) - len(offered),
        )
        try:
            answer = await self._dialogue.ask(
                question,
                lambda line, shown: _chosen(line, offered[:shown]),
                seconds=seconds,
                preface=partial(self._preview, prompt),
            )
        except NobodyAnsweredError:
            self._screen.note(f"no answer; the default is {default}")
            raise ApprovalTimeoutError(f"no answer came within {timeout:g} s") from None
        finally:
            row.last = self._clock()
        return _DENIED if answer is None else answer  # the end of the input, or of the time, permits nothing

    def _is_flood(self, row: _Row, who: str) -> bool:
        row.length = 1 if self._clock() - row.last > _PAUSE else row.length + 1
        if row.length == _MAX_IN_A_ROW + 1:
            self._screen.warning(
                f"{who} asked {_MAX_IN_A_ROW} questions in a row; "
                f"what else it asks is denied until it has asked nothing for {_PAUSE:g} s"
            )
        return row.length > _MAX_IN_A_ROW


@dataclass(slots=True)
class _Row:
    """A series of questions of one module: how many, and when the last one ended."""

    length: int = 0
    last: float = float("-inf")


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
