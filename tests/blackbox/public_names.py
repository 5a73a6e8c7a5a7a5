"""What a module offers, as plain values: its public names, their members, and what these are called with.

The standard library alone is imported, and nothing of the suite: a copy of this file also runs in a worker. Annotations
are left out, as how they are written differs between versions of Python, and of defaults all but plain values.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import types
from typing import Any

_OURS = {"amplifier_core", "amplifier_foundation", "paddock", "paddock_sdk", "paddock_sources"}
_CONSTANTS = (str, int, float, bool, tuple, frozenset, list, set, dict, type(None))
_PLAIN = (str, int, float, bool, type(None))


def described(names: list[str]) -> dict[str, Any]:
    """Return the public names of each of these modules."""
    return {name: _module(importlib.import_module(name)) for name in names}


def _module(module: types.ModuleType) -> dict[str, Any]:
    listed = getattr(module, "__all__", None)
    names = [name for name in dir(module) if not name.startswith("_")] if listed is None else listed
    found = {name: getattr(module, name) for name in names}
    return {name: _object(value) for name, value in sorted(found.items()) if listed is not None or _is_ours(value)}


def _is_ours(value: object) -> bool:
    if isinstance(value, types.ModuleType):
        return False
    home = getattr(value, "__module__", None)
    return isinstance(value, _CONSTANTS) if home is None else str(home).partition(".")[0] in _OURS


def _object(value: Any) -> Any:
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, enum.EnumMeta):
        return {"enum": {name: member.value for name, member in value.__members__.items()}}
    if isinstance(value, type):
        return _class(value)
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, (list, tuple)):
        return [item if isinstance(item, _PLAIN) else "..." for item in value]
    if isinstance(value, dict):
        return sorted(map(str, value))
    if isinstance(value, _PLAIN):
        return value
    return _call(value) if callable(value) else "object"


def _class(cls: type) -> dict[str, Any]:
    ours = [one for one in cls.__mro__ if one.__module__.partition(".")[0] in _OURS]
    members: dict[str, Any] = {}
    for one in reversed(ours):
        for name, value in vars(one).items():
            if not name.startswith(("_", "model_")):
                members[name] = _member(value)
    facts: dict[str, Any] = {"members": members}
    fields = getattr(cls, "model_fields", None)
    if isinstance(fields, dict):
        facts["fields"] = {
            name: "required" if field.is_required() else _default(field.default) for name, field in fields.items()
        }
        for name in fields:
            members.pop(name, None)
    elif not getattr(cls, "_is_protocol", False) and any("__init__" in vars(one) for one in ours):
        facts["call"] = _call(cls)
    bases = [one.__name__ for one in cls.__mro__[1:] if one.__module__ == "builtins" and one is not object]
    if issubclass(cls, BaseException):
        # Whatever catches it, by the names that an `except` may have.
        facts["caught as"] = [one.__name__ for one in ours[1:]] + bases
    return facts


def _member(value: Any) -> Any:
    if isinstance(value, property):
        return "property"
    if isinstance(value, (classmethod, staticmethod)):
        return f"{type(value).__name__} {_call(value.__func__)}"
    return _call(value) if inspect.isfunction(value) else "data"


def _call(value: Any) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "(?)"
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    shown = []
    for one in plain:
        if one.default is not inspect.Parameter.empty:
            shown.append(f"{one.replace(default=inspect.Parameter.empty)}={_default(one.default)}")
        else:
            shown.append(str(one))
        if one.kind is inspect.Parameter.KEYWORD_ONLY:
            shown[-1] = f"[by name] {shown[-1]}"
        if one.kind is inspect.Parameter.POSITIONAL_ONLY:
            shown[-1] = f"[by position] {shown[-1]}"
    kind = "async " if inspect.iscoroutinefunction(value) else "async for " if inspect.isasyncgenfunction(value) else ""
    return f"{kind}({', '.join(shown)})"


def _default(value: object) -> str:
    if isinstance(value, enum.Enum):
        return repr(value.value)
    return repr(value) if isinstance(value, _PLAIN) else "..."
