"""The configuration of the reminder, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How often the model is reminded, and of how much.

    `every` counts requests to the model in which the list did not change. Handlers of lower `priority` run earlier.
    """

    every: int = 5
    max_items: int = 20
    priority: int = 10

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings that a mount plan's `config` describes.

        Raises:
            ValueError: a key is unknown, or its value is no number that it takes.
        """
        known = [field.name for field in fields(cls)]
        for key, value in config.items():
            if key not in known:
                raise ValueError(f"hooks-todo-reminder: there is no setting `{key}`; there are {', '.join(known)}")
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if not is_number or (key != "priority" and value < 1):
                bound = "" if key == "priority" else " above 0"
                raise ValueError(f"hooks-todo-reminder: `{key}` must be a whole number{bound}, not {value!r}")
        return cls(**config)
