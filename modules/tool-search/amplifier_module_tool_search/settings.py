"""The configuration of the search tools, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the tools may search, how long one search may take, and how large a file may be.

    Relative paths are relative to the working directory. Without `allowed_paths` that directory may be searched, and
    what the host granted this module besides. Without `ripgrep` the program is not used where it is there.
    """

    allowed_paths: tuple[str, ...] | None = None
    timeout: float = 20.0
    max_file_bytes: int = 10 * _MEBIBYTE
    ripgrep: bool = True

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings a mount plan's `config` describes; null means the default, an empty list means nothing.

        Raises:
            ValueError: a setting is unknown or has the wrong shape; the message names it.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(str(key) for key in config if key not in known)
        if unknown:
            raise ValueError(
                f"tool-search: there is no setting {', '.join(f'`{key}`' for key in unknown)}; "
                f"there are {', '.join(f'`{name}`' for name in sorted(known))}"
            )
        given: dict[str, Any] = {name: value for name, value in config.items() if value is not None}
        for name, value in given.items():
            if (problem := _PROBLEMS[name](value)) is not None:
                raise ValueError(f"tool-search: `{name}` must be {problem}, not {value!r}")
        if "allowed_paths" in given:
            given["allowed_paths"] = tuple(given["allowed_paths"])
        return cls(**given)


def _of_paths(value: Any) -> str | None:
    is_good = isinstance(value, list | tuple) and all(isinstance(path, str) and path for path in value)
    return None if is_good else "a list of paths"


def _of_timeout(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and 0 < value <= 600 else "a number of seconds, up to 600"


def _of_bytes(value: Any) -> str | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return None if is_number and value > 0 else "a whole number of bytes"


def _of_switch(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


_PROBLEMS = {"allowed_paths": _of_paths, "timeout": _of_timeout, "max_file_bytes": _of_bytes, "ripgrep": _of_switch}
