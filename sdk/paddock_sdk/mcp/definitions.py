"""Definitions of a server's tools: what counts as one, its one text, which cannot be used, and how two of them differ.

A definition has the fields `FIELDS`, as JSON; what is absent, null or empty in a server's list is left out. Two tools
with one text look the same to a model and to a person. Other parts of a list, such as icons, are not compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

FIELDS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MAX_TOOLS: Final = 512  # in one list

# Of a definition, in its canonical JSON. A mounted tool is described to other processes in 256 KiB and 4,096 values,
# with its methods; what does not fit there would be left out in silence.
_MAX_BYTES: Final = 250_000
_MAX_VALUES: Final = 4_000
_MAX_DEPTH: Final = 32

_OBJECTS: Final = ("inputSchema", "outputSchema", "annotations")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # as the protocol has them since 2025-11-25
_REFERENCES: Final = ("$ref", "$dynamicRef")
_SENTENCE: Final = re.compile(r"(?<=[.!?;]) +|\n+")
_ATTRIBUTES: Final = {  # of a mounted tool, where they are not called as the fields
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
}

_MAX_LINES: Final = 40  # of a difference
_MAX_VALUE: Final = 100  # characters of a value in a line of it
_MAX_PLACE: Final = 60  # characters of the place before that


def defined(tool: object) -> dict[str, Any]:
    """Return the definition of a tool as a server lists it, with an `inputSchema` that is an object's.

    Raises:
        ValueError: the tool cannot be used; the message says why, in printable ASCII.
    """
    if not isinstance(tool, Mapping):
        raise ValueError("it is no object")
    definition = {field: tool[field] for field in FIELDS if tool.get(field)}
    for field, value in definition.items():
        kind = dict if field in _OBJECTS else str
        if not isinstance(value, kind):
            raise ValueError(f"its `{field}` is no {'object' if kind is dict else 'text'}")
    if not _NAME.fullmatch(definition.get("name", "")):
        raise ValueError("its `name` is not 1 to 128 letters, digits, `_`, `-` or `.`")
    schema = {"type": "object"}
    schema |= definition.get("inputSchema", {})
    if schema["type"] != "object":
        raise ValueError("its `inputSchema` describes no object")
    definition["inputSchema"] = schema
    values = _checked(definition)
    if values > _MAX_VALUES:
        raise ValueError(f"its definition has {values} values, more than {_MAX_VALUES}")
    size = len(canonical(definition))
    if size > _MAX_BYTES:
        raise ValueError(f"its definition has {size} bytes, more than {_MAX_BYTES}")
    return definition


def of_mounted(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a tool that `tool-mcp` mounted, from all that a model or a client is shown of it.

    `attributes` are the mounted tool's; its name has the prefix of the plan.

    Raises:
        ValueError: as `defined` does.
    """
    tool = {}
    for field in FIELDS:
        tool[field] = attributes.get(_ATTRIBUTES.get(field, field))
    return defined(tool)


def usable(listed: Sequence[object]) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]]]:
    """Return the definitions by name, in the order of names; and of each other tool its name, escaped, and why."""
    found: dict[str, dict[str, Any]] = {}
    left_out = []
    for tool in listed[:MAX_TOOLS]:
        try:
            definition = defined(tool)
            name = definition["name"]
            if name in found:
                raise ValueError("another tool in the list has its name")
            found[name] = definition
        except ValueError as error:
            shown = tool.get("name") if isinstance(tool, Mapping) else tool
            left_out.append((ascii(shown)[:_MAX_VALUE], str(error)))
    more = len(listed) - MAX_TOOLS
    if more > 0:
        left_out.append((f"{more} more", f"a server has at most {MAX_TOOLS} tools"))
    return dict(sorted(found.items())), left_out


def canonical(definition: Mapping[str, Any]) -> str:
    """Return a definition as JSON in ASCII: keys sorted, no spaces.

    Raises:
        ValueError: JSON cannot express it.
    """
    try:
        return json.dumps(
            definition,
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
        )
    except (TypeError, ValueError, RecursionError):
        raise ValueError("its definition is no JSON") from None


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return how two definitions differ, in at most 40 lines of printable ASCII of at most 180 characters.

    Each begins with `-` or `+` and has one value with its place, such as `+ inputSchema.properties.to.type: "string"`.
    A text is taken by its sentences. The last line says how many more there are. An empty definition stands for none.
    """
    before = Counter(_lines(old) if old else ())
    after = Counter(_lines(new) if new else ())
    removed = [f"- {line}" for line in (before - after).elements()]
    added = [f"+ {line}" for line in (after - before).elements()]
    total = len(removed) + len(added)
    if total <= _MAX_LINES:
        return removed + added
    # Of both sides something is seen, however much one of them has.
    room = _MAX_LINES - 1
    shown = removed[: max(room // 2, room - len(added))]
    shown += added[: room - len(shown)]
    return [*shown, f"... and {total - room} more lines"]


def _checked(value: Any, depth: int = 1) -> int:
    """Return the number of values in a part of a definition.

    Raises:
        ValueError: it is too deep, or refers to something elsewhere.
    """
    inside: Collection[Any] = ()
    if isinstance(value, list):
        inside = value
    elif isinstance(value, dict):
        inside = value.values()
        for key in _REFERENCES:
            target = value.get(key)
            if isinstance(target, str) and not target.startswith("#"):
                raise ValueError(f"its `{key}` leads out of its definition: {ascii(target)[:_MAX_VALUE]}")
    if inside and depth > _MAX_DEPTH:
        raise ValueError(f"its definition is more than {_MAX_DEPTH} deep")
    count = 1
    for one in inside:
        count += _checked(one, depth + 1)
    return count


def _lines(value: Any, place: str = "") -> Iterator[str]:
    """Yield a line for each value in a definition, with the end of its place."""
    if isinstance(value, dict) and value:
        for key, one in sorted(value.items()):
            name = json.dumps(key)[1:-1]
            inner = f"{place}.{name}" if place else name
            yield from _lines(one, inner[-_MAX_PLACE:])
        return
    if isinstance(value, list) and value:
        for number, one in enumerate(value):
            inner = f"{place}[{number}]"
            yield from _lines(one, inner[-_MAX_PLACE:])
        return
    pieces = _SENTENCE.split(value) if isinstance(value, str) else [value]
    for piece in pieces:
        text = json.dumps(piece)
        for start in range(0, len(text), _MAX_VALUE):
            end = start + _MAX_VALUE
            yield f"{place}: {text[start:end]}"
