"""The configuration of the provider, checked once at mount."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from .prices import Catalogue, Prices

KEY_VARIABLE = "OPENAI_API_KEY"
OPENAI_URL = "https://api.openai.com/v1"
_OWN_HOSTS = ("openai.com", "openai.azure.com")
_DEFAULT_MODEL = "gpt-5-mini"
_COUNTS = (("max_retries", 0), ("max_continuations", 0), ("max_output_tokens", 1), ("context_window", 1))
_AMOUNTS = (("timeout_seconds", 0.001), ("max_retry_delay", 0.0), ("temperature", 0.0))
_TEXTS = ("api_key", "base_url", "default_model", "name", "reasoning_effort")


@dataclass(frozen=True, slots=True)
class Settings:
    """The server, the model, and the patience. Sizes are in tokens, times in seconds.

    `timeout_seconds` bounds each silence of the server, not the whole answer. None stands for the default of the model
    or the server. `key_place` is no setting: it names the place of the key, for errors.
    """

    api_key: str = field(default="", repr=False)
    key_place: str = KEY_VARIABLE
    base_url: str = OPENAI_URL
    default_model: str = _DEFAULT_MODEL
    name: str = "openai"
    priority: int = 100
    stream: bool = True
    temperature: float | None = None
    reasoning_effort: str | None = None
    max_output_tokens: int | None = None
    context_window: int | None = None
    timeout_seconds: float = 120.0
    max_retries: int = 4
    max_retry_delay: float = 60.0
    max_continuations: int = 3
    prices: Mapping[str, Prices] = field(default_factory=dict)

    @property
    def is_openai(self) -> bool:
        """Whether the service is OpenAI's own, or Microsoft's of the same models."""
        host = urlsplit(self.base_url).hostname or ""
        return any(host == own or host.endswith(f".{own}") for own in _OWN_HOSTS)

    @classmethod
    def of(cls, config: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        """Return the settings that a mount plan's `config` describes; null and empty text mean the default.

        Raises:
            ValueError: a setting is unknown or has the wrong shape; the message names it.
        """
        known = {one.name for one in fields(cls)} - {"key_place"}
        unknown = sorted(str(key) for key in config if key not in known)
        if unknown:
            raise ValueError(
                f"provider-openai: there is no setting {', '.join(f'`{key}`' for key in unknown)}; "
                f"there are {', '.join(f'`{name}`' for name in sorted(known))}"
            )
        given: dict[str, Any] = {name: value for name, value in config.items() if value is not None and value != ""}
        for name in _TEXTS:
            if name in given and not (isinstance(given[name], str) and given[name].isprintable()):
                raise _refused(name, "a line of text", given[name])
        for name, least in _COUNTS:
            if name in given and not (_is_number(given[name], int) and given[name] >= least):
                raise _refused(name, f"a whole number of at least {least}", given[name])
        if "priority" in given and not _is_number(given["priority"], int):
            raise _refused("priority", "a whole number", given["priority"])
        for name, smallest in _AMOUNTS:
            value = given.get(name, smallest)
            if not (_is_number(value, int, float) and smallest <= value <= sys.float_info.max):  # nan is neither
                raise _refused(name, f"a number of at least {smallest:g}", value)
        if "stream" in given and not isinstance(given["stream"], bool):
            raise _refused("stream", "true or false", given["stream"])
        given["prices"] = Catalogue.prices_of(given.get("prices", {}))
        given.setdefault("api_key", environ.get(KEY_VARIABLE, ""))
        # The host replaces a reference to a variable before this module gets it, so its name is not known.
        given["key_place"] = "`api_key`" if config.get("api_key") else KEY_VARIABLE
        given.setdefault("base_url", environ.get("OPENAI_BASE_URL", "") or OPENAI_URL)
        parts = urlsplit(given["base_url"])
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _refused("base_url", "an address such as http://127.0.0.1:11434/v1", given["base_url"])
        settings = cls(**given)
        if not settings.is_openai and "default_model" not in given:
            raise ValueError(
                f"provider-openai: `default_model` is missing; {settings.base_url} has models of its own: name one "
                "of them"
            )
        return settings


def _refused(name: str, wanted: str, value: object) -> ValueError:
    shown = "what it is" if name == "api_key" else repr(value)
    return ValueError(f"provider-openai: `{name}` must be {wanted}, not {shown}")


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
