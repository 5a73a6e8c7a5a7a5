"""The configuration of the web tools, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """How much of a page is read, for how long, and where searches go.

    `max_bytes` counts a page as it is after decompression. Without `search_url` there is no search.
    """

    search_url: str = ""
    max_bytes: int = 4 * _MEBIBYTE
    timeout_seconds: int = 30
    max_redirects: int = 5
    user_agent: str = "amplifier-tool-web/0.1"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings a mount plan's `config` describes; null means the default.

        Raises:
            ValueError: a setting is unknown or has the wrong shape; the message names it.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(str(key) for key in config if key not in known)
        if unknown:
            raise ValueError(
                f"tool-web: there is no setting {', '.join(f'`{key}`' for key in unknown)}; "
                f"there are {', '.join(f'`{name}`' for name in sorted(known))}"
            )
        given: dict[str, Any] = {name: value for name, value in config.items() if value is not None}
        for name, least in (("max_bytes", 1), ("timeout_seconds", 1), ("max_redirects", 0)):
            value = given.get(name, least)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"tool-web: `{name}` must be a whole number of at least {least}, not {value!r}")
        for name in ("search_url", "user_agent"):
            value = given.get(name, "")
            if not isinstance(value, str) or not value.isprintable():
                raise ValueError(f"tool-web: `{name}` must be a line of text, not {value!r}")
        url = given.get("search_url", "")
        if url and not url.startswith(("http://", "https://")):
            raise ValueError(f"tool-web: `search_url` must begin with http:// or https://, not {url!r}")
        return cls(**given)
