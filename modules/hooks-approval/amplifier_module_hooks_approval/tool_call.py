"""The tool call that is to be decided on, as the event `tool:pre` has it, and how a person reads it.

The model chose all of it, so it is shown as JSON text, with what cannot be printed escaped: no part of a call can pass
for a part of the question.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

_MAX_NAME = 100  # characters of the name of an argument
_MAX_VALUE = 1_500  # characters of an argument: a person does not read a longer command to its end
_MAX_CALL = 3_000  # of all of them; terminals show about as much


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call; `id` is empty where the orchestrator gives none."""

    tool: str
    arguments: dict[str, Any]
    id: str = ""

    @classmethod
    def of(cls, data: Any) -> ToolCall:
        """Return the call of an event; what is no call is one of an unknown tool."""
        fields = data if isinstance(data, dict) else {}
        given = fields.get("tool_input")
        arguments = given if isinstance(given, dict) else {} if given is None else {"tool_input": given}
        return cls(str(fields.get("tool_name") or "unknown tool"), arguments, str(fields.get("tool_call_id") or ""))

    def text(self, name: str) -> str | None:
        """Return an argument as text, for patterns; None where there is none."""
        if name not in self.arguments:
            return None
        value = self.arguments[name]
        return value if isinstance(value, str) else _json(value)

    def shape(self, without: Collection[str]) -> str:
        """Return what two calls have in common that differ in some arguments only, as a digest."""
        kept = {name: value for name, value in self.arguments.items() if name not in without}
        return sha256(_json([self.tool, kept]).encode("utf-8", "backslashreplace")).hexdigest()

    def shown(self) -> str:
        """Return the arguments as a person reads them, a line for each; what is left out is counted.

        The shortest come first: a long text cannot move the name of a file, or a flag, out of view.
        """
        lines = sorted((_line(name, value) for name, value in self.arguments.items()), key=len)
        shown: list[str] = []
        room = _MAX_CALL
        for line in lines:
            room -= len(line)
            if room < 0:
                break
            shown.append(line)
        if left_out := len(lines) - len(shown):
            shown.append(f"({left_out} more arguments are not shown)")
        return "\n".join(f"  {line}" for line in shown) or "  no arguments"


def _line(name: object, value: object) -> str:
    return f"{_printable(_cut(str(name), _MAX_NAME))}: {_printable(_cut(_json(value), _MAX_VALUE))}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters are not shown)"


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
