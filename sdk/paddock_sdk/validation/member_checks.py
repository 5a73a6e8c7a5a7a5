"""Checks of one member that several kinds of modules have: a text, an asynchronous method."""

from __future__ import annotations

from typing import Any

from paddock_sdk.validation.members import count_parameters, is_async, member
from paddock_sdk.validation.result import ValidationResult

__all__ = ["check_async", "check_text", "uncallable"]


def check_text(result: ValidationResult, check: str, objects: list[Any], name: str) -> None:
    """Check that each object has a text of this name, and that it is not empty."""
    faults, texts = [], []
    for obj in objects:
        found = member(obj, name)
        if found.absence is not None:
            faults.append(f"{type(obj).__name__} {found.absence}")
        elif not isinstance(found.value, str):
            faults.append(f"that of {type(obj).__name__} is {type(found.value).__name__}")
        elif not found.value.strip():
            faults.append(f"that of {type(obj).__name__} is empty")
        else:
            texts.append(found.value.strip())
    if faults:
        result.fail(check, f"`{name}` has to be a text that is not empty: {'; '.join(faults)}")
    else:
        result.succeed(check, f"`{name}` is {_shortened(', '.join(texts))}")


def check_async(
    result: ValidationResult, check: str, objects: list[Any], name: str, *, at_least: int, called: str
) -> None:
    """Check that each object has an asynchronous method of this name that takes at least so many arguments."""
    faults = uncallable(objects, name)
    for obj in objects:
        method = member(obj, name)
        if not callable(method.value):
            continue
        if not is_async(method.value):
            faults.append(f"that of {type(obj).__name__} is not asynchronous")
        elif (taken := count_parameters(method.value, keywords=True)) < at_least:
            faults.append(f"that of {type(obj).__name__} takes {taken} arguments")
    if faults:
        result.fail(check, f"`{name}` has to be defined as `async def {called}`: {'; '.join(faults)}")
    else:
        result.succeed(check, f"`{name}` is asynchronous and takes what it is called with")


def uncallable(objects: list[Any], name: str) -> list[str]:
    """Return, for each object that has no such method, how it has none."""
    faults = []
    for obj in objects:
        method = member(obj, name)
        if method.absence is not None:
            faults.append(f"{type(obj).__name__} {method.absence}")
        elif not callable(method.value):
            faults.append(f"that of {type(obj).__name__} cannot be called")
    return faults


def _shortened(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
