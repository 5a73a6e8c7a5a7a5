"""Which events belong to one call of a language model."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.correlation import (
    INTERIM_EVENTS,
    REQUEST_EVENTS,
    REQUEST_ID_FIELD,
    TERMINAL_EVENTS,
    current_request_id,
    new_request_id,
    reset_request_id,
    resolve_request_id,
)

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
