"""The module that asks the person something, as stamped by the host, which knows the connection.

The module contract's signature of an approval system has no place for this; the system can read it here during the
call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

_KEPT: Final = 100  # questions that were not put to the person yet; most never are, as another decision came first

_current: ContextVar[Requester | None] = ContextVar("asker", default=None)
_answering: ContextVar[list[tuple[Requester, int]] | None] = ContextVar("answering", default=None)


@dataclass(frozen=True, slots=True)
class Requester:
    """The module that asks; `on_behalf_of` is the party that it claims to ask for, untrusted."""

    kind: str
    name: str
    on_behalf_of: str = ""


def current_requester() -> Requester | None:
    """Return the module that the running call is made for, None where the application itself asks."""
    return _current.get()


@contextmanager
def requesting(requester: Requester) -> Iterator[None]:
    """Attribute requests made within to this module."""
    token = _current.set(requester)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def collecting_prompts() -> Iterator[list[tuple[Requester, int]]]:
    """Collect the modules that answer the event emitted within with a question, and the question's hash.

    The question itself is not kept: any number of handlers may answer with one that is as long as a message.
    """
    asked: list[tuple[Requester, int]] = []
    token = _answering.set(asked)
    try:
        yield asked
    finally:
        _answering.reset(token)


def note_prompt(requester: Requester, prompt: object) -> None:
    """Note that a module answers the present event with a question, unless the answer asks no person."""
    asked = _answering.get()
    if asked is not None and (prompt is None or isinstance(prompt, str)):
        asked.append((requester, hash(prompt)))


class PendingPrompts:
    """Questions in answers to events, until their emitters put them to the person; so their authors are known.

    Only a question that a module really answered with is asked in its name, once for each time.
    """

    def __init__(self) -> None:
        self._open: deque[tuple[object, Requester, int]] = deque(maxlen=_KEPT)

    def note(self, emitter: object, prompt: str | None, asked: list[tuple[Requester, int]]) -> None:
        """Note the author of a question that an emitter gets as an answer."""
        question = hash(prompt)
        requester = next((requester for requester, known in asked if known == question), None)
        if requester is not None:
            self._open.append((emitter, requester, question))

    def take(self, emitter: object, prompt: str | None) -> Requester | None:
        """Return the author of an emitter's question, None if it is not known."""
        question = hash(prompt)
        for one in self._open:
            if one[0] is emitter and one[2] == question:
                self._open.remove(one)
                return one[1]
        return None

    def forget(self, emitter: object) -> None:
        """Drop the questions of an emitter that is gone."""
        for one in [one for one in self._open if one[0] is emitter]:
            self._open.remove(one)
