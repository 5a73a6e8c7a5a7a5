"""The configuration of the file tools, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the tools may go, and how large a file they take.

    Relative paths are relative to the working directory. None stands for that directory itself, and what the host
    granted this module besides.
    The sizes keep one careless call from filling the memory and the conversation.
    """

    allowed_read_paths: tuple[str, ...] | None = None
    allowed_write_paths: tuple[str, ...] | None = None
    max_read_bytes: int = 10 * _MEBIBYTE
    max_write_bytes: int = 10 * _MEBIBYTE

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings of a mount plan's `config`; null means the default, an empty list means nothing.

        Raises:
            ValueError: a setting is unknown or has the wrong shape; the message names it. Ignoring one that is meant to
                forbid something would be unsafe.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(str(key) for key in config if key not in known)
        if unknown:
            raise ValueError(
                f"tool-filesystem: there is no setting {', '.join(f'`{key}`' for key in unknown)}; "
                f"there are {', '.join(f'`{name}`' for name in sorted(known))}"
            )
        given: dict[str, Any] = {name: value for name, value in config.items() if name in known and value is not None}
        for name in ("allowed_read_paths", "allowed_write_paths"):
            if name in given:
                given[name] = _paths(name, given[name])
        for name in ("max_read_bytes", "max_write_bytes"):
            if name in given and (isinstance(given[name], bool) or not isinstance(given[name], int) or given[name] < 1):
                raise ValueError(f"tool-filesystem: `{name}` must be a whole number of bytes, not {given[name]!r}")
        return cls(**given)


def _paths(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(path, str) and path for path in value):
        return tuple(value)
    raise ValueError(f"tool-filesystem: `{name}` must be a list of paths, not {value!r}")
