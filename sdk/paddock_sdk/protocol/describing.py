"""Look at a live object and write down what another process may know of it.

Only public names are looked at, each property is read once, and what cannot be read is left
out: a description never fails because a module's property does. Data under a name that usually
holds a secret stays home.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Final

from paddock_sdk.protocol.description import MAX_MEMBERS, Description, Flavour, Member, is_identifier, is_public

_SECRET_WORDS: Final = (
    "api_key",
    "apikey",
    "secret",
    "password",
    "token",
    "credential",
    "private_key",
    "authorization",
)
_NOT_SECRET: Final = ("max_tokens", "max_output_tokens", "token_count", "token_budget", "tokens")
_MAX_DATA_DEPTH: Final = 12  # JSON schemas of tools nest about this deep at most


def flavour_of(function: object) -> Flavour:
    """Tell how `function` has to be called."""
    with contextlib.suppress(Exception):  # wrappers that wrap each other, or an object that pretends to be one
        function = inspect.unwrap(function)  # type: ignore[arg-type]
    call = function
    if not inspect.isroutine(function) and not isinstance(function, functools.partial):
        call = getattr(function, "__call__", function)  # noqa: B004 - the bound method, not whether there is one
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return Flavour.ASYNC
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        return Flavour.STREAM
    return Flavour.SYNC


def is_function(value: object) -> bool:
    """Whether `value` is a function or method rather than an object with members of its own."""
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def describe(value: object) -> Description:
    """Return the description of a function or object."""
    if is_function(value):
        name = getattr(value, "__name__", type(value).__name__)
        return Description(
            name if is_identifier(name) else "function", (Member("__call__", flavour_of(value)),), {}, is_function=True
        )
    members: list[Member] = []
    attributes: dict[str, Any] = {}
    for name in _public_names(value):
        if len(members) == MAX_MEMBERS:
            break
        try:
            item = getattr(value, name)
            if name == "__call__" or (callable(item) and not inspect.isclass(item)):
                members.append(Member(name, flavour_of(item)))
            elif not _is_secret(name) and _is_plain(item):
                attributes[name] = _masked(item)
        except Exception:  # noqa: S112 - a module's property failed; it is absent, as hasattr would say
            continue
    name = type(value).__name__
    return Description(name if is_identifier(name) else "Object", tuple(members), attributes)


def _public_names(value: object) -> list[str]:
    names = dict.fromkeys(name for name in dir(type(value)) if is_public(name))
    names.update(dict.fromkeys(name for name in getattr(value, "__dict__", ()) if is_public(name)))
    if callable(value):
        names["__call__"] = None
    return list(names)


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS) and lowered not in _NOT_SECRET


def _is_plain(value: object, depth: int = 0) -> bool:
    if value is None or type(value) in (bool, int, float, str):
        return True
    if depth >= _MAX_DATA_DEPTH:
        return False
    if type(value) in (list, tuple):
        return all(_is_plain(item, depth + 1) for item in value)  # type: ignore[attr-defined]
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item, depth + 1) for key, item in value.items())
    return False


def _masked(value: Any) -> Any:
    if type(value) is dict:
        return {
            key: "[REDACTED]" if _is_secret(key) and isinstance(item, str) else _masked(item)
            for key, item in value.items()
        }
    if type(value) in (list, tuple):
        return [_masked(item) for item in value]
    return value
