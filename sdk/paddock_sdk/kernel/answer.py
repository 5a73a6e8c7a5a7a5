"""Read a hook handler's return value; an invalid one never counts as a "yes".

A handler answers with nothing, a `HookResult`, another model or a mapping of the same fields. The contract's own class
is taken as it is. Everything else is converted to JSON types and validated strictly, so that a result never shares data
with its handler. Anything invalid raises here, and the registry denies.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from paddock_sdk.kernel.payload import Payload

if TYPE_CHECKING:
    from paddock_sdk.contract.models import HookResult

__all__ = ["InvalidAnswerError", "hook_result_class", "read_answer"]

_ACTIONS: Final = frozenset({"continue", "deny", "modify", "inject_context", "ask_user"})


class InvalidAnswerError(Exception):
    """Raised when a handler returned something that is not a hook result."""


# Kept, because an import statement inside a function costs about as much as the rest of a short emit's bookkeeping.
@cache
def hook_result_class() -> type[HookResult]:
    """Return the contract's class, importing it on the first call."""
    from paddock_sdk.contract.models import HookResult

    return HookResult


def read_answer(returned: object) -> HookResult:
    """Return a handler's answer as a hook result.

    Raises:
        InvalidAnswerError: it is invalid.
    """
    model = hook_result_class()
    if isinstance(returned, model):
        # Models do not validate assignments, so the two fields the registry acts on are looked at.
        if returned.action not in _ACTIONS:
            raise InvalidAnswerError(f"action {returned.action!r} is unknown")
        if returned.data is not None and not isinstance(returned.data, dict):
            raise InvalidAnswerError(f"data is a {type(returned.data).__name__}, not a mapping")
        return returned
    if not isinstance(returned, dict) and not hasattr(type(returned), "model_dump"):
        raise InvalidAnswerError(f"it is a {type(returned).__name__}, not a hook result")
    try:
        return model.model_validate(Payload.of(returned).shared, strict=True)
    except Exception as error:
        raise InvalidAnswerError(str(error)) from error
