"""The configuration of the approvals, checked once at mount."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .rules import ApprovalRule, Decision, decision, names

_FREE_TOOLS = ("read_file", "list_directory", "glob", "grep", "todo")
_CONTENT = {"write_file": ("content",), "edit_file": ("old_string", "new_string", "replace_all")}
_LONGEST = 24 * 3600


@dataclass(frozen=True, slots=True)
class Settings:
    """Which calls run, which need a question, and how.

    The first of the `rules` that fits a call decides; without one, the `free_tools` run, and `default` decides about
    the rest. `content_arguments` are, by tool, those that are ignored when "Allow always" is remembered. The default
    `priority` is late, so that the shown call includes the changes of other hooks.
    """

    rules: tuple[ApprovalRule, ...] = ()
    free_tools: tuple[str, ...] = _FREE_TOOLS
    default: Decision = "ask"
    timeout: float = 300.0
    audit_path: str | None = None
    content_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(_CONTENT))
    priority: int = 900

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings that a mount plan's `config` describes.

        Raises:
            ValueError: a key is unknown, or its value is not one that it takes.
        """
        known = [one.name for one in fields(cls)]
        for key in config:
            if key not in known:
                raise ValueError(f"hooks-approval: there is no setting `{key}`; there are {', '.join(known)}")
        return cls(**{key: _READERS[key](value) for key, value in config.items()})


def _rules(value: Any) -> tuple[ApprovalRule, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"hooks-approval: `rules` must be a list of rules, not {value!r}")
    return tuple(ApprovalRule.of(rule, f"rules[{number}]") for number, rule in enumerate(value))


def _timeout(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST:
        raise ValueError(f"hooks-approval: `timeout` must be seconds, above 0 and up to {_LONGEST}, not {value!r}")
    return float(value)


def _audit_path(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"hooks-approval: `audit_path` must be the name of a file, not {value!r}")
    return value


def _content_arguments(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping) or not all(isinstance(tool, str) for tool in value):
        raise ValueError(f"hooks-approval: `content_arguments` must be a table of lists by name of tool, not {value!r}")
    return {tool: names(arguments, f"content_arguments.{tool}") for tool, arguments in value.items()}


def _priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"hooks-approval: `priority` must be a whole number, not {value!r}")
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "rules": _rules,
    "free_tools": lambda value: names(value, "free_tools"),
    "default": lambda value: decision(value, "default"),
    "timeout": _timeout,
    "audit_path": _audit_path,
    "content_arguments": _content_arguments,
    "priority": _priority,
}
