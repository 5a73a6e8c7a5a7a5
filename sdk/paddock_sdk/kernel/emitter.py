"""The emitter of the event that a handler is called with, which the event's own data does not contain.

The emitter controls its event's data, so a module's name cannot come from there. A handler that needs the name asks
here during its call. A plain process has no modules to distinguish, and the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

__all__ = ["answer_emitter_with", "event_emitter"]


_source: ContextVar[Callable[[], str | None]] = ContextVar("paddock_event_emitter", default=lambda: None)


def event_emitter() -> str | None:
    """Return the name of the module that emitted the event which the calling handler is called with.

    None stands for the host and the application, and for code outside a handler.
    """
    return _source.get()()


def answer_emitter_with(source: Callable[[], str | None]) -> None:
    """Make the current context, and copies of it, call this function."""
    _source.set(source)
