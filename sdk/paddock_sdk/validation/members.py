"""Descriptions of functions, exceptions and members, and the member checks that validators share."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from paddock_sdk.validation.result import ValidationCheck, ValidationResult


def is_async(function: Any) -> bool:
    """Return whether this is a function defined with `async def`, or a mock of one."""
    return asyncio.iscoroutinefunction(function)  # inspect's own does not recognise mocks


def count_parameters(function: Any) -> float:
    """Return how many parameters a call fills; infinite where that is unknown. `*args` counts as one."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C, without a signature
        return float("inf")
    return sum(name != "self" for name in parameters)


def described(error: BaseException) -> str:
    """Return the class and the text of an exception, the text as far as there is one."""
    try:
        text = str(error)
    except Exception:  # `__str__` of a class we do not know
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def check_name(result: ValidationResult, check: str, obj: Any) -> None:
    """Check that an object has a name: text that is not empty."""
    try:
        name = obj.name
    except Exception as error:  # a property of a class we do not know
        result.fail(check, f"reading the `name` of {type(obj).__name__} raised {described(error)}")
        return
    if isinstance(name, str) and name:
        line = " ".join(name.split())
        result.succeed(check, f"`name` is {line if len(line) <= 60 else line[:59] + '…'}")
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
    except (TypeError, ValueError):  # it has no signature; calling it will show
        return True
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    )


def _failed(message: str) -> ValidationCheck:
    return ValidationCheck("on_session_ready_async", False, message, "error")
