"""Who asks the person something: stamped by the host, which knows the connection, and not by who asks.

An approval system is called by the module contract's signature, which has no place for this; it can read it here for
the length of the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

_KEPT: Final = 100  # questions that the person was not asked yet; most never are, as something else was decided

_current: ContextVar[Requester | None] = ContextVar("asker", default=None)
_answering: ContextVar[list[tuple[Requester, int]] | None] = ContextVar("answering", default=None)


@dataclass(frozen=True, slots=True)
class Requester:
    """The module that asks; `on_behalf_of` is whom it names as the one who wants to know, untrusted."""

    kind: str
    name: str
    on_behalf_of: str = ""


def current_requester() -> Requester | None:
    """Return the module that the running call is made for, None where the application itself asks."""
    return _current.get()


@contextmanager
def requesting(requester: Requester) -> Iterator[None]:
    """Let what is asked within be asked by this module."""
    token = _current.set(requester)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def collecting_prompts() -> Iterator[list[tuple[Requester, int]]]:
    """Collect who wants the person asked, and the hash of what, in answer to the event that is emitted within.

    Not the question itself: any number of handlers may answer with one that is as long as a message.
    """
    asked: list[tuple[Requester, int]] = []
    token = _answering.set(asked)
    try:
        yield asked
    finally:
        _answering.reset(token)


def note_prompt(requester: Requester, prompt: object) -> None:
    """Note that a module answers the event that is being emitted with a question, unless it is none to ask a person."""
    asked = _answering.get()
    if asked is not None and (prompt is None or isinstance(prompt, str)):
        asked.append((requester, hash(prompt)))


class PendingPrompts:
    """What events were answered with, until their emitters have it asked: so it is known whose question that is.

    Only a question that a module really answered with is asked in its name, once for each time.
    """

    def __init__(self) -> None:
        self._open: deque[tuple[object, Requester, int]] = deque(maxlen=_KEPT)

    def note(self, emitter: object, prompt: str | None, asked: list[tuple[Requester, int]]) -> None:
        """Note whose question an emitter is answered with."""
        question = hash(prompt)
        requester = next((requester for requester, known in asked if known == question), None)
        if requester is not None:
            self._open.append((emitter, requester, question))

    def take(self, emitter: object, prompt: str | None) -> Requester | None:
        """Return whose question it is that an emitter has asked, None where it is not known to be anybody's."""
        question = hash(prompt)
        for one in self._open:
            if one[0] is emitter and one[2] == question:
                self._open.remove(one)
                return one[1]
        return None

    def forget(self, emitter: object) -> None:
        """An emitter is gone, and will have nothing asked any more."""
        for one in [one for one in self._open if one[0] is emitter]:
            self._open.remove(one)
