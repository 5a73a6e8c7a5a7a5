"""The configuration of the provider, checked once at mount."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from .prices import Catalogue, Prices

KEY_VARIABLE = "ANTHROPIC_API_KEY"
ANTHROPIC_URL = "https://api.anthropic.com"
DEFAULT_MODEL = "claude-sonnet-5-5"
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_THINKING = ("auto", "adaptive", "off")
_LEAST_THINKING = 1024  # tokens, by the vendor's rule
_COUNTS = (("max_output_tokens", 1), ("max_retries", 0), ("max_continuations", 0))
_TEXTS = ("api_key", "base_url", "default_model", "name", "reasoning_effort")
_AMOUNTS = (("timeout_seconds", 0.001), ("max_retry_delay", 0.0), ("temperature", 0.0))


@dataclass(frozen=True, slots=True)
class Settings:
    """The model and its server, the form of an answer, and the patience. Sizes are in tokens, times in seconds.

    `thinking` is `auto` (the model's own default, shown), `adaptive`, `off`, or a number of tokens. `timeout_seconds`
    bounds each silence of the server, not the whole answer. `prices` add to the module's own table, or replace lines of
    it. `key_place` is no setting: it names the place of the key, for errors.
    """

    api_key: str = field(default="", repr=False)
    key_place: str = KEY_VARIABLE
    base_url: str = ANTHROPIC_URL
    default_model: str = DEFAULT_MODEL
    name: str = "anthropic"
    priority: int = 100
    max_output_tokens: int = 32_000
    temperature: float | None = None
    thinking: str | int = "auto"
    reasoning_effort: str = ""
    prompt_caching: bool = True
    timeout_seconds: float = 120.0
    max_retries: int = 4
    max_retry_delay: float = 60.0
    max_continuations: int = 3
    prices: Mapping[str, Prices] = field(default_factory=dict)

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
                f"provider-anthropic: there is no setting {', '.join(f'`{key}`' for key in unknown)}; "
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
        if not isinstance(given.get("prompt_caching", True), bool):
            raise _refused("prompt_caching", "true or false", given["prompt_caching"])
        if given.get("reasoning_effort", EFFORTS[0]) not in EFFORTS:
            raise _refused("reasoning_effort", f"one of {', '.join(EFFORTS)}", given["reasoning_effort"])
        given["prices"] = Catalogue.prices_of(given.get("prices", {}))
        given.setdefault("api_key", environ.get(KEY_VARIABLE, ""))
        # The host replaces a reference to a variable before this module gets it, so its name is not known.
        given["key_place"] = "`api_key`" if config.get("api_key") else KEY_VARIABLE
        given.setdefault("base_url", environ.get("ANTHROPIC_BASE_URL", "") or ANTHROPIC_URL)
        parts = urlsplit(given["base_url"])
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _refused("base_url", f"an address such as {ANTHROPIC_URL}", given["base_url"])
        settings = cls(**given)
        thinking, most = settings.thinking, settings.max_output_tokens
        if thinking not in _THINKING and not (_is_number(thinking, int) and _LEAST_THINKING <= int(thinking) < most):
            wanted = f"auto, adaptive, off, or a number of tokens from {_LEAST_THINKING} and below `max_output_tokens`"
            raise _refused("thinking", wanted, thinking)
        return settings


def _refused(name: str, wanted: str, value: object) -> ValueError:
    shown = "what it is" if name == "api_key" else repr(value)
    return ValueError(f"provider-anthropic: `{name}` must be {wanted}, not {shown}")


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
