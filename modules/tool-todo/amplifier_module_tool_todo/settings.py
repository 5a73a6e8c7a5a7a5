"""The configuration of the todo tool, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How long the list may become: `max_items` items, whose texts have up to `max_characters` each.

    The model reads the whole list with every result, so a list without end would fill the conversation.
    """

    max_items: int = 100
    max_characters: int = 500

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings that a mount plan's `config` describes.

        Raises:
            ValueError: a key is unknown, or its value is no number above zero.
        """
        known = [field.name for field in fields(cls)]
        for key, value in config.items():
            if key not in known:
                raise ValueError(f"tool-todo: there is no setting `{key}`; there are {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"tool-todo: `{key}` must be a whole number above 0, not {value!r}")
        return cls(**config)
