"""The check of a module's `on_session_ready`, which it need not have."""

from __future__ import annotations

import inspect
from typing import Any

from paddock_sdk.validation.members import is_async
from paddock_sdk.validation.result import ValidationCheck

__all__ = ["check_on_session_ready"]

_DEFINITION = "define it as `async def on_session_ready(coordinator)`"


def check_on_session_ready(module: Any) -> ValidationCheck | None:
    """Return a failed check where a module's `on_session_ready` cannot be awaited with a coordinator, else None."""
    ready = getattr(module, "on_session_ready", None)
    if ready is None:
        return None
    if not is_async(ready):
        return _failed(f"on_session_ready is not asynchronous; {_DEFINITION}")
    if not _takes_something(ready):
        return _failed(f"on_session_ready takes no coordinator; {_DEFINITION}")
    return None


def _takes_something(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it does not say what it takes; calling it will tell
        return True
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    )


def _failed(message: str) -> ValidationCheck:
    return ValidationCheck("on_session_ready_async", False, message, "error")
