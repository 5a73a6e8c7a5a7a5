"""The configuration of the task tool, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """The modules that sub-sessions lack, and how much of an answer the model gets.

    `exclude_tools` and `exclude_hooks` are module ids. Agents do not delegate any further, unless `exclude_tools` is
    set otherwise.
    """

    exclude_tools: tuple[str, ...] = ("tool-task",)
    exclude_hooks: tuple[str, ...] = ()
    max_answer_characters: int = 50_000

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings that a mount plan's `config` describes.

        Raises:
            ValueError: a key is unknown, or its value is not one that it takes.
        """
        known = [field.name for field in fields(cls)]
        given: dict[str, Any] = {}
        for key, value in config.items():
            if key not in known:
                raise ValueError(f"tool-task: there is no setting `{key}`; there are {', '.join(known)}")
            given[key] = _number(key, value) if key == "max_answer_characters" else _names(key, value)
        return cls(**given)


def _number(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"tool-task: `{key}` must be a whole number above 0, not {value!r}")
    return value


def _names(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise ValueError(f"tool-task: `{key}` must be a list of module ids, not {value!r}")
    return tuple(value)
