"""Look at an object's members without trusting them: they may be missing, raise, or be anything.

Nothing here calls a method of the object; a property is read, and what it raises is told instead of raised.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

__all__ = ["Member", "count_parameters", "described", "is_async", "member"]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object; where it cannot be had, `absence` says why and the value is None."""

    value: Any
    absence: str | None

    @property
    def present(self) -> bool:
        return self.absence is None


def member(obj: Any, name: str) -> Member:
    """Return a member by name."""
    try:
        return Member(getattr(obj, name), None)
    except AttributeError:
        return Member(None, f"has no `{name}`")
    except Exception as error:  # a property of a class we do not know
        return Member(None, f"raises {described(error)} when its `{name}` is read")


def is_async(function: Any) -> bool:
    """Return whether calling this gives a coroutine, as far as can be told without calling it."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def count_parameters(function: Any, *, keywords: bool = False) -> float:
    """Return how many arguments a call may pass: by position, or also by keyword; infinite where anything goes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, without saying what it takes
        return float("inf")
    kinds: list[inspect._ParameterKind] = [inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD]
    endless: list[inspect._ParameterKind] = [inspect.Parameter.VAR_POSITIONAL]
    if keywords:
        kinds.append(inspect.Parameter.KEYWORD_ONLY)
        endless.append(inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in endless for parameter in parameters):
        return float("inf")
    return sum(parameter.kind in kinds for parameter in parameters)


def described(error: BaseException) -> str:
    """Return the class and the text of an exception, the text as far as there is one."""
    try:
        text = str(error)
    except Exception:  # `__str__` of a class we do not know
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
