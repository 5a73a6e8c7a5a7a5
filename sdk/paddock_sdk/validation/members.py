"""What there is to say of a function without calling it, and of an exception without trusting it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

__all__ = ["count_parameters", "described", "is_async"]


def is_async(function: Any) -> bool:
    """Return whether this is a function defined with `async def`, or a mock of one."""
    return asyncio.iscoroutinefunction(function)  # inspect's knows no mocks


def count_parameters(function: Any) -> float:
    """Return how many parameters a call fills; infinite where that cannot be told. `*args` counts as one."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C, without saying what it takes
        return float("inf")
    return sum(name != "self" for name in parameters)


def described(error: BaseException) -> str:
    """Return the class and the text of an exception, the text as far as there is one."""
    try:
        text = str(error)
    except Exception:  # `__str__` of a class we do not know
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
