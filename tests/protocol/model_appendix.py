"""The appendix of models and errors of `sdk/PROTOCOL.md`, made from the vocabulary.

`PYTHONPATH=tests python -m protocol.model_appendix` writes it into the page.
"""

from __future__ import annotations

import builtins
import dataclasses
import datetime as dt
import importlib
import types
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from paddock_sdk.contract import vocabulary

PAGE = Path(__file__).parents[2] / "sdk" / "PROTOCOL.md"
_HEADING = "## Appendix: models and errors\n"
_INTRODUCTION = """
A field without a default is required. Where nothing stands for its type, a field takes any value. A model marked with *
keeps further fields; the others drop them. A map has text for keys. A `Decimal` or a time crosses as a scalar, and its
text is taken as well.

| model | fields |
|---|---|
"""
_ERRORS = """
A lineage of these errors ends as the table says. Python's built-in exceptions are known by their own names.

| error | its lineage goes on with |
|---|---|
"""
_WORDS = {
    str: "text",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "nil",
    Decimal: "`decimal`",
    dt.datetime: "`datetime`",
}
_NOTHING = object()


def appendix() -> str:
    """Return the section."""
    models = [
        f"| `{name}`{'*' if _keeps_more(cls) else ''} | {'; '.join(_fields(cls))} |"
        for name, cls in ((name, _class_of(name)) for name in vocabulary._HOME)
    ]
    errors = [
        f"| `{name}` | {', '.join(f'`{base.__name__}`' for base in cls.__mro__[1:-2]) or 'nothing'} |"
        for name, cls in vocabulary._ERRORS.items()
        if getattr(builtins, name, None) is not cls
    ]
    return "\n".join((_HEADING + _INTRODUCTION.rstrip("\n"), *models, _ERRORS.rstrip("\n"), *errors, ""))


def section(page: str) -> str:
    """Return the section as the page has it."""
    _, heading, rest = page.partition(_HEADING)
    return heading + rest.partition("\n## ")[0]


def _class_of(name: str) -> type[Any]:
    found: type[Any] = getattr(importlib.import_module(vocabulary._HOME[name]), name)
    return found


def _keeps_more(cls: type[Any]) -> bool:
    return getattr(cls, "model_config", {}).get("extra") == "allow"


def _fields(cls: type[Any]) -> list[str]:
    hints = get_type_hints(cls)
    if dataclasses.is_dataclass(cls):
        known = {
            field.name: _NOTHING
            if field.default is field.default_factory is dataclasses.MISSING
            else field.default
            if field.default is not dataclasses.MISSING
            else field.default_factory()  # type: ignore[misc]
            for field in dataclasses.fields(cls)
            if field.name != vocabulary._VENDORS
        }
    else:
        known = {
            field.alias or field.validation_alias or name: _NOTHING
            if field.is_required()
            else dt.datetime
            if field.default_factory is dt.datetime.now
            else field.get_default(call_default_factory=True)
            for name, field in cls.model_fields.items()
        }
        hints.update({str(field.validation_alias): hints[name] for name, field in cls.model_fields.items()})
    return [_field(name, hints[name], default) for name, default in known.items()]


def _field(name: str, hint: Any, default: object) -> str:
    kind = _kind(hint)
    is_constant = get_origin(hint) is Literal and len(get_args(hint)) == 1
    told = f"`{name}`" + (f": {kind}" if kind else "")
    if default is _NOTHING or is_constant:
        return told
    return f"{told} = {_default(default)}"


def _default(value: object) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case Enum():
            return f'"{value.value}"'
        case str():
            return f'"{value}"'
        case list():
            return "[]"
        case dict():
            return "{}"
        case dt.datetime() | type():
            return "now"
    return str(value)


def _kind(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return ""
    if origin is Annotated:
        return _kind(args[0])
    if origin is Literal:
        return " or ".join(f'"{one}"' for one in args)
    if origin in (Union, types.UnionType):
        kinds = [_kind(one) for one in args]
        return " or ".join(kinds) if all(kinds) else ""
    if origin is list:
        inner = _kind(args[0])
        return f"array of ({inner})" if " or " in inner else f"array of {inner}" if inner else "array"
    if origin is dict:
        return "map" if args[1] is Any else f"map of {_kind(args[1])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(f'"{one.value}"' for one in hint)
    return _WORDS.get(hint) or hint.__name__


def main() -> None:
    """Write the section into the page, at its end."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.replace(section(page), "").rstrip("\n") + "\n\n" + appendix(), encoding="utf-8")


if __name__ == "__main__":
    main()
