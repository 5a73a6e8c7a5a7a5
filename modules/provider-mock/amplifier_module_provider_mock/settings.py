"""The configuration of the provider, checked once.

Unknown settings are refused, as a misspelt one changes the script. Settings that tune a model are accepted and have no
effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from . import fields
from .script import ScriptedReply

_KEYS = (
    "responses",
    "fallback",
    "name",
    "default_model",
    "context_window",
    "max_output_tokens",
    "priority",
    "deltas",
    "prices",
)
_PRICES = ("input_per_million", "output_per_million")
# A session that delegates adds these to the configuration of its chosen provider, which may be this one.
_TUNING = (
    "temperature",
    "top_p",
    "max_tokens",
    "reasoning_effort",
    "reasoning",
    "thinking_budget",
    "thinking_budget_tokens",
    "verbosity",
)
_PLACE = "config"


@dataclass(frozen=True, slots=True)
class MockPrices:
    """The claimed price of a million tokens, in US dollars."""

    input: Decimal
    output: Decimal


@dataclass(frozen=True, slots=True)
class Settings:
    """The provider's name, the sizes it claims to have, and its script. Sizes are in tokens.

    With `deltas`, `complete` emits an answer word by word before it returns it whole. Without `prices`, answers cost
    nothing.
    """

    replies: tuple[ScriptedReply, ...] = ()
    fallback: ScriptedReply | None = None
    name: str = "mock"
    default_model: str = "mock-model"
    context_window: int = 128_000
    max_output_tokens: int = 8_192
    priority: int = 100
    deltas: bool = False
    prices: MockPrices | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings a mount plan's `config` describes.

        Raises:
            ValueError: a setting is unknown, or its value has the wrong shape; the message names it.
        """
        config = {key: value for key, value in fields.mapping(config, _PLACE).items() if key not in _TUNING}
        fields.only(config, _KEYS, _PLACE)
        items = fields.sequence(config.get("responses"), "responses")
        fallback = config.get("fallback")
        settings = cls(
            replies=tuple(ScriptedReply.of(item, f"responses[{index}]") for index, item in enumerate(items)),
            fallback=ScriptedReply.of(fallback, "fallback") if fallback is not None else None,
            name=fields.name(config, "name", _PLACE, "mock"),
            default_model=fields.name(config, "default_model", _PLACE, "mock-model"),
            context_window=fields.whole(config, "context_window", _PLACE, 128_000, least=1),
            max_output_tokens=fields.whole(config, "max_output_tokens", _PLACE, 8_192, least=1),
            priority=fields.whole(config, "priority", _PLACE, 100),
            deltas=fields.flag(config, "deltas", _PLACE),
            prices=_prices(config["prices"]) if config.get("prices") is not None else None,
        )
        if settings.max_output_tokens >= settings.context_window:
            raise fields.refuse(_PLACE, "`max_output_tokens` must be smaller than `context_window`")
        return settings


def _prices(value: Any) -> MockPrices:
    prices = fields.mapping(value, "prices")
    fields.only(prices, _PRICES, "prices")
    return MockPrices(*(Decimal(str(fields.amount(prices, key, "prices", "US dollars"))) for key in _PRICES))
