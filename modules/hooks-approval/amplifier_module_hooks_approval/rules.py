"""Rules for tool calls: patterns on the tool's name and on its arguments, and the decision.

In a pattern, `*` stands for any text. In an argument of a rule that allows, it matches no `..` and no character that
lets a shell start another command: `git status*` does not allow `git status; rm -rf .`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from .tool_call import CheckedToolCall

Decision = Literal["allow", "ask", "deny"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)

_NOT_BY_A_WILDCARD = (*";&|<>$`(){}\\\n\r\0", "..")


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """One rule; it fits a call of one of its tools whose arguments all fit its patterns."""

    tools: tuple[str, ...]
    action: Decision
    arguments: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def of(cls, written: Any, place: str) -> ApprovalRule:
        """Return the rule that a configuration describes.

        Raises:
            ValueError: it has the wrong shape; the message names the place.
        """
        if not isinstance(written, Mapping):
            raise ValueError(f"hooks-approval: `{place}` must be a table with `tools` and `action`, not {written!r}")
        known = [one.name for one in fields(cls)]
        for key in written:
            if key not in known:
                raise ValueError(f"hooks-approval: there is no `{place}.{key}`; a rule has {', '.join(known)}")
        arguments, reason = written.get("arguments", {}), written.get("reason", "")
        if not isinstance(arguments, Mapping) or not all(_is_text(*one) for one in arguments.items()):
            raise ValueError(f"hooks-approval: `{place}.arguments` must be a table of patterns, not {arguments!r}")
        if not isinstance(reason, str):
            raise ValueError(f"hooks-approval: `{place}.reason` must be a text, not {reason!r}")
        return cls(
            names(written.get("tools"), f"{place}.tools"),
            decision(written.get("action"), f"{place}.action"),
            dict(arguments),
            reason,
        )

    def fits(self, call: CheckedToolCall) -> bool:
        """Whether the rule decides on a call."""
        if not any(fnmatchcase(call.tool, tool) for tool in self.tools):
            return False
        return all(self._fits(pattern, call.text(name)) for name, pattern in self.arguments.items())

    def _fits(self, pattern: str, text: str | None) -> bool:
        if text is None or not _matches(pattern, text):
            return False
        # As often in the text as in the pattern: then no wildcard matches any of them.
        return self.action != "allow" or all(text.count(one) == pattern.count(one) for one in _NOT_BY_A_WILDCARD)


def names(written: Any, place: str) -> tuple[str, ...]:
    """Return a list of names or patterns of tools.

    Raises:
        ValueError: the value is not such a list.
    """
    if not isinstance(written, list | tuple) or not all(_is_text(one) and one for one in written):
        raise ValueError(f"hooks-approval: `{place}` must be a list of names of tools, not {written!r}")
    return tuple(written)


def decision(written: Any, place: str) -> Decision:
    """Return the decision of a rule.

    Raises:
        ValueError: it is no known decision.
    """
    for known in DECISIONS:
        if written == known:
            return known
    raise ValueError(f"hooks-approval: `{place}` must be one of {', '.join(DECISIONS)}, not {written!r}")


def _matches(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern; takes time in proportion to the text, however many wildcards there are."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    place = len(first)
    *middle, last = rest
    for part in middle:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return len(text) - place >= len(last) and text.endswith(last)


def _is_text(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)
