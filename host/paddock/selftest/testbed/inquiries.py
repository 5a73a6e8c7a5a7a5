"""What this process asks the system's resolver for, as the interpreter tells of it.

Whoever asks for a name tells everybody on the way to the name's owner that somebody did, and in the name whatever they
like. An interpreter can be told once to report such acts, and not to stop: nothing is kept of them but while somebody
listens.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Final, Self

_EVENTS: Final = frozenset(("socket.getaddrinfo", "socket.gethostbyname"))

_listeners: set[LookupLog] = set()
_is_reported = False


class LookupLog:
    """Names that hold `mark` and that were asked for while it is entered, wherever in the process."""

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
        """Hear of a name that is asked for."""
        text = name.decode("latin-1") if isinstance(name, bytes) else str(name)
        if self._mark in text:
            self._names[text] = None

    def made(self) -> tuple[str, ...]:
        """Return what was asked for, and forget it."""
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
