"""The configuration of a loop, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How long one prompt may keep the loop going, and which data hooks get.

    `max_iterations` counts requests to the model that offer tools. Fifty is far above ordinary tasks and stops a model
    that calls tools in circles before it has spent a fortune; -1 removes the limit. `show_messages` shows
    the conversation in every `provider:request` that a hook handles, for which the context is asked once more.
    """

    max_iterations: int = 50
    show_messages: bool = True

    @classmethod
    def of(cls, loop: str, config: Mapping[str, Any]) -> Self:
        """Return the settings that a mount plan's `config` describes.

        Raises:
            ValueError: a setting is unknown or has the wrong shape; the message names it and what is allowed.
        """
        known = {field.name: field.default for field in fields(cls)}
        for name, value in config.items():
            if name not in known:
                raise ValueError(f"{loop}: there is no setting `{name}`; there are {', '.join(known)}")
            if isinstance(known[name], bool):
                allowed, fits = "true or false", isinstance(value, bool)
            elif isinstance(known[name], str):
                allowed, fits = "a text", isinstance(value, str)
            else:
                unlimited = name == "max_iterations"
                allowed = "a whole number above 0" + (", or -1 for no limit" if unlimited else "")
                is_whole = isinstance(value, int) and not isinstance(value, bool)
                fits = is_whole and (value > 0 or (unlimited and value == UNLIMITED))
            if not fits:
                raise ValueError(f"{loop}: `{name}` must be {allowed}, not {value!r}")
        return cls(**config)

    def allows(self, iteration: int) -> bool:
        """Return whether the given iteration, counted from 1, may still offer tools."""
        return self.max_iterations == UNLIMITED or iteration <= self.max_iterations
