"""Group the calls of a language model: one `request_id` from the request to its end.

The open call lives in a context variable, so concurrent tasks do not see each other's. A request opens a call, a
terminal event closes it, an interim event only reads it.
"""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from typing import Final

from paddock_sdk.contract import events

__all__ = [
    "REQUEST_ID_FIELD",
    "REQUEST_EVENTS",
    "TERMINAL_EVENTS",
    "INTERIM_EVENTS",
    "new_request_id",
    "current_request_id",
    "resolve_request_id",
    "reset_request_id",
]

REQUEST_ID_FIELD: Final = "request_id"
REQUEST_EVENTS: Final = frozenset({events.LLM_REQUEST})
TERMINAL_EVENTS: Final = frozenset({events.LLM_RESPONSE, events.PROVIDER_ERROR})
INTERIM_EVENTS: Final = frozenset({events.PROVIDER_RETRY, events.PROVIDER_THROTTLE})
CORRELATED_EVENTS: Final = REQUEST_EVENTS | TERMINAL_EVENTS | INTERIM_EVENTS

_open_call: ContextVar[str | None] = ContextVar("paddock_open_llm_call", default=None)


def new_request_id() -> str:
    """Return a unique id."""
    return str(uuid.uuid4())


def current_request_id() -> str | None:
    """Return the id of the call that is open in this context."""
    return _open_call.get()


def reset_request_id() -> None:
    """Forget the open call."""
    _open_call.set(None)


def resolve_request_id(event: str, explicit: object = None) -> str | None:
    """Return an event's id, opening or closing the call if the event does; None without one.

    An id from the emitter itself (text that is not empty) is adopted.
    """
    given = explicit if isinstance(explicit, str) and explicit else None
    if event in REQUEST_EVENTS:
        request_id = given or new_request_id()
        _open_call.set(request_id)
        return request_id
    if event not in CORRELATED_EVENTS:
        return given
    carried = given or _open_call.get()
    if event in TERMINAL_EVENTS:
        _open_call.set(None)
    return carried
