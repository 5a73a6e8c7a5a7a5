"""The configuration of the module, checked once at mount."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and "\0" not in one for one in value)


def _are_variables(value: object) -> bool:
    return isinstance(value, dict) and _are_texts([*value, *value.values()])


@dataclass(frozen=True, slots=True)
class Settings:
    """How the server is started, and which of its tools are mounted under which names.

    `bin` and `without_scripts` are about the server's package: the kind of source reads them, and not this module.
    """

    command: list[str]
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    prefix: str = ""
    tools: list[str] | None = None
    name: str = "tool-mcp"
    bin: str = ""
    without_scripts: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings that a mount plan's `config` describes; null means the default.

        Raises:
            ValueError: a setting is unknown, has the wrong shape, or there is no command; the message names it.
        """
        known = [one.name for one in fields(cls)]
        given = {key: value for key, value in config.items() if value is not None}
        for key, value in given.items():
            if key not in known:
                raise ValueError(f"tool-mcp: there is no setting `{key}`; there are {', '.join(known)}")
            fits, words = _SHAPES[key]
            if not fits(value):
                raise ValueError(f"tool-mcp: `{key}` must be {words}, not {value!r:.200}")
        if not given.get("command"):
            raise ValueError("tool-mcp: `command` is missing, the program of an MCP server: `command: [./server.py]`")
        return cls(**given)


_SHAPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "command": (_are_texts, "a list of texts"),
    "args": (_are_texts, "a list of texts"),
    "env": (_are_variables, "a table of texts"),
    "prefix": (lambda value: isinstance(value, str), "a text"),
    "tools": (_are_texts, "a list of names"),
    "name": (_is_text, "a text"),
    "bin": (_is_text, "a text"),
    "without_scripts": (lambda value: isinstance(value, bool), "true or false"),
}
