"""The configuration of the module, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


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
            kind, words = _SHAPES.get(key, (str, "a text"))
            inside = [*value.values()] if isinstance(value, dict) else value
            if not isinstance(value, kind) or (
                kind in (list, dict) and not all(isinstance(one, str) for one in inside)
            ):
                raise ValueError(f"tool-mcp: `{key}` must be {words}, not {value!r:.200}")
        if not given.get("command"):
            raise ValueError("tool-mcp: `command` is missing, the program of an MCP server: `command: [./server.py]`")
        return cls(**given)


_SHAPES: dict[str, tuple[type, str]] = {
    "command": (list, "a list of texts"),
    "args": (list, "a list of texts"),
    "env": (dict, "a table of texts"),
    "tools": (list, "a list of names"),
    "without_scripts": (bool, "true or false"),
}
