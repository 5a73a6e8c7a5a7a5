"""Whose event a handler is called with: what the event's own data does not say.

A module's name is not in the data of its events, which is what the emitter made it. A handler that goes by whose event
it is asks here, while it is called. In a plain process there are no modules to tell apart, and the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

__all__ = ["answer_emitter_with", "event_emitter"]


def _nobody() -> str | None:
    return None


_source: ContextVar[Callable[[], str | None]] = ContextVar("paddock_event_emitter", default=_nobody)


def event_emitter() -> str | None:
    """Return the name of the module that emitted the event which the calling handler is called with.

    None stands for the host and the application, and for code that no event has called.
    """
    return _source.get()()


def answer_emitter_with(source: Callable[[], str | None]) -> None:
    """Have the current context, and those that are made of it, ask this function."""
    _source.set(source)
