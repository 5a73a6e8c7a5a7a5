"""Checks of one member that several kinds of modules have: a name, an asynchronous method."""

from __future__ import annotations

from typing import Any

from paddock_sdk.validation.members import count_parameters, described, is_async
from paddock_sdk.validation.result import ValidationResult

__all__ = ["check_async", "check_name"]


def check_name(result: ValidationResult, check: str, obj: Any) -> None:
    """Check that an object has a name: text that is not empty."""
    try:
        name = obj.name
    except Exception as error:  # a property of a class we do not know
        result.fail(check, f"reading the `name` of {type(obj).__name__} raised {described(error)}")
        return
    if isinstance(name, str) and name:
        result.succeed(check, f"`name` is {_shortened(name)}")
    else:
        result.fail(
            check, f"`name` has to be a text that is not empty, and that of {type(obj).__name__} is {name!r:.60}"
        )


def check_async(result: ValidationResult, check: str, obj: Any, name: str, *, at_least: int, called: str) -> None:
    """Check that an object has an asynchronous method of this name with at least so many parameters."""
    method = getattr(obj, name, None)
    fault = None
    if method is None:
        fault = f"{type(obj).__name__} has no `{name}`"
    elif not is_async(method):
        fault = f"that of {type(obj).__name__} is not asynchronous"
    elif (taken := count_parameters(method)) < at_least:
        fault = f"that of {type(obj).__name__} has {taken} parameters"
    if fault is None:
        result.succeed(check, f"`{name}` is asynchronous and takes what it is called with")
    else:
        result.fail(check, f"`{name}` has to be defined as `async def {called}`: {fault}")


def _shortened(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
