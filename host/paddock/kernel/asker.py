"""Who asks the person something: stamped by the host, which knows the connection, and not by who asks.

An approval system is called by the module contract's signature, which has no place for this; it can read it here for
the length of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_current: ContextVar[Asker | None] = ContextVar("asker", default=None)


@dataclass(frozen=True, slots=True)
class Asker:
    """The module that asks; `on_behalf_of` is whom it names as the one who wants to know, untrusted."""

    kind: str
    name: str
    on_behalf_of: str = ""


def current_asker() -> Asker | None:
    """Return the module that the running call is made for, None where the application itself asks."""
    return _current.get()


@contextmanager
def asking(asker: Asker) -> Iterator[None]:
    """Let what is asked within be asked by this module."""
    token = _current.set(asker)
    try:
        yield
    finally:
        _current.reset(token)
