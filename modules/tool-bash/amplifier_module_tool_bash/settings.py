"""The configuration of the bash tools, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How long a command may run, how much of its output is kept, how many jobs run at once.

    The longest time is under the two minutes that hosts give a tool's call by default. `max_output_bytes` counts for
    stdout and stderr each: the model reads all of it.
    """

    timeout_seconds: int = 60
    max_timeout_seconds: int = 110
    max_output_bytes: int = 32_768
    max_jobs: int = 8

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings that a mount plan's `config` describes; null means the default.

        Raises:
            ValueError: a setting is unknown, or is no whole number above zero; the message names it.
        """
        known = [field.name for field in fields(cls)]
        given = {key: value for key, value in config.items() if value is not None}
        for key, value in given.items():
            if key not in known:
                raise ValueError(f"tool-bash: there is no setting `{key}`; there are {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"tool-bash: `{key}` must be a whole number above 0, not {value!r}")
        settings = cls(**given)
        if settings.timeout_seconds > settings.max_timeout_seconds:
            raise ValueError("tool-bash: `timeout_seconds` must not be above `max_timeout_seconds`")
        return settings
