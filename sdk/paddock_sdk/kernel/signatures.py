"""Find out which parameters a module's function takes, where editions of the contract pass different ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["takes_keyword"]


def takes_keyword(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function accepts `name=`; one with unreadable parameters is assumed to."""
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = taken.get(name)
    if named is not None and named.kind in keyword:
        return True
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
