"""The tool call to decide on, from the event `tool:pre`, and its text for a person.

The model chose all of it, so it is shown as JSON text, with unprintable characters escaped: no part of a call can pass
for a part of the question.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

_MAX_NAME = 100  # characters of the name of an argument
_MAX_VALUES = (1_500, 500, 150, 50)  # characters of an argument, tried in turn: few people read a long one to its end
_MAX_CALL = 3_000  # of all of them; terminals show about as much

# Characters that count as printable but leave no mark: fillers, blanks, joiners, and variation selectors.
_UNSEEN = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810)))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


@dataclass(frozen=True, slots=True)
class CheckedToolCall:
    """One call; `id` is empty where the orchestrator gives none."""

    tool: str
    arguments: dict[str, Any]
    id: str = ""

    @classmethod
    def of(cls, data: Any) -> CheckedToolCall:
        """Return the call of an event; an invalid one becomes a call of an unknown tool."""
        fields = data if isinstance(data, dict) else {}
        given = fields.get("tool_input")
        arguments = given if isinstance(given, dict) else {} if given is None else {"tool_input": given}
        return cls(str(fields.get("tool_name") or "unknown tool"), arguments, str(fields.get("tool_call_id") or ""))

    def text(self, name: str) -> str | None:
        """Return an argument as text, for patterns; None if it is absent."""
        if name not in self.arguments:
            return None
        value = self.arguments[name]
        return value if isinstance(value, str) else _json(value)

    def shape(self, without: Collection[str]) -> str:
        """Return a digest that is equal for two calls that differ only in the ignored arguments."""
        kept = {name: value for name, value in self.arguments.items() if name not in without}
        return sha256(_json([self.tool, kept]).encode("utf-8", "backslashreplace")).hexdigest()

    @property
    def is_showable(self) -> bool:
        """Whether a person can be shown something of each argument: among many, one could hide that matters."""
        return self._lines() is not None

    def shown(self) -> str:
        """Return the arguments for a person to read, a line for each; omitted ones are counted.

        The shortest come first: a long text cannot move the name of a file, or a flag, out of view.
        """
        lines = self._lines()
        if lines is None:
            return f"  {len(self.arguments)} arguments, too many to be shown"
        return "\n".join(f"  {line}" for line in lines) or "  no arguments"

    def _lines(self) -> list[str] | None:
        """Return a line for each argument, as much of it as fits; None if not enough fits."""
        texts = [(_printable(_cut(str(name), _MAX_NAME)), _json(value)) for name, value in self.arguments.items()]
        for most in _MAX_VALUES:
            lines = sorted((f"{name}: {_printable(_cut(text, most))}" for name, text in texts), key=len)
            if sum(map(len, lines)) <= _MAX_CALL:
                return lines
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters are not shown)"


def _printable(text: str) -> str:
    return "".join(
        one if one.isprintable() and one not in _UNSEEN else one.encode("unicode_escape").decode() for one in text
    )
