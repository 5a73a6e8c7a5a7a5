"""Record the names that this process asks the system's resolver for, from the interpreter's audit events.

A process that looks up a name reveals, to every server on the way to the name's owner, that it did, and any text in the
name. An audit hook of the interpreter can be added once and not removed: events are kept only while a log is entered.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Final, Self

_EVENTS: Final = frozenset(("socket.getaddrinfo", "socket.gethostbyname"))

_listeners: set[LookupLog] = set()
_is_reported = False


class LookupLog:
    """Names with `mark` in them that any part of the process looks up while this is entered."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._names: dict[str, None] = {}

    def __enter__(self) -> Self:
        _have_reported()
        _listeners.add(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _listeners.discard(self)

    def note(self, name: object) -> None:
        """Record a name that is looked up."""
        text = name.decode("latin-1") if isinstance(name, bytes) else str(name)
        if self._mark in text:
            self._names[text] = None

    def made(self) -> tuple[str, ...]:
        """Return the lookups, and forget them."""
        names, self._names = self._names, {}
        return tuple(f"the system was asked for {name}" for name in names)


def _have_reported() -> None:
    global _is_reported
    if not _is_reported:
        _is_reported = True
        sys.addaudithook(_report)


def _report(event: str, arguments: tuple[object, ...]) -> None:
    if event in _EVENTS:
        for listener in tuple(_listeners):
            listener.note(arguments[0])
