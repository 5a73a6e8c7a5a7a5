"""The known facts about models: sizes and prices, from `models.json` and from the configuration.

The table names its date and its source. It is about OpenAI's own service: elsewhere a model of the same name has other
prices, which the configuration may give. For a model without a price no cost is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files
from typing import Any

from amplifier_core.message_models import Usage
from amplifier_core.models import Pricing

_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")  # of a snapshot: gpt-4o-2024-08-06
_MILLION = Decimal(1_000_000)
_REASONING_NAME = re.compile(r"(o\d|gpt-[5-9])")
_NAMES = ("input_per_million", "output_per_million", "cache_read_per_million")


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of a million tokens, in US dollars; cached input without a price costs as much as input."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost of an answer."""
        cached = usage.cache_read_tokens or 0
        cache_read = self.input if self.cache_read is None else self.cache_read
        fresh = max(usage.input_tokens - cached, 0)
        return (fresh * self.input + cached * cache_read + usage.output_tokens * self.output) / _MILLION

    def pricing(self) -> Pricing:
        """Return the prices as the contract writes them."""
        return Pricing(
            input_per_million=float(self.input),
            output_per_million=float(self.output),
            cache_read_per_million=None if self.cache_read is None else float(self.cache_read),
        )


@dataclass(frozen=True, slots=True)
class Known:
    """The known facts about one model; None where a fact is unknown."""

    prices: Prices | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    reasons: bool = False


class Catalogue:
    """The known models, of OpenAI's own service or of another."""

    def __init__(self, prices: Mapping[str, Prices], *, is_openai: bool) -> None:
        self._prices = prices
        self._is_openai = is_openai

    def of(self, model: str) -> Known:
        """Return the known facts about a model; a dated snapshot has those of its model."""
        short = _DATED.sub("", model)
        table = _table() if self._is_openai else {}
        known = table.get(model) or table.get(short)
        if known is None:
            known = Known(reasons=self._is_openai and bool(_REASONING_NAME.match(model)))
        prices = self._prices.get(model) or self._prices.get(short) or known.prices
        return Known(prices, known.context_window, known.max_output_tokens, known.reasons)

    def models(self) -> list[str]:
        """Return the models of the table, for OpenAI's own service alone."""
        return sorted(_table()) if self._is_openai else []

    @staticmethod
    def prices_of(config: Any) -> dict[str, Prices]:
        """Return the prices that a configuration gives, by model.

        Raises:
            ValueError: it has another form; the message names the place.
        """
        if not isinstance(config, Mapping):
            raise ValueError("provider-openai: `prices` must be a mapping of models to prices")
        found: dict[str, Prices] = {}
        for model, given in config.items():
            place = f"provider-openai: `prices.{model}`"
            if not isinstance(given, Mapping) or not set(_NAMES[:2]) <= set(given) <= set(_NAMES):
                raise ValueError(f"{place} must have `{_NAMES[0]}` and `{_NAMES[1]}`, and may have `{_NAMES[2]}`")
            found[str(model)] = Prices(*(_amount(given[name], f"{place}.{name}") for name in _NAMES if name in given))
        return found


def _amount(value: Any, place: str) -> Decimal:
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal(-1)
    if isinstance(value, bool) or not amount.is_finite() or amount < 0:
        raise ValueError(f"{place} must be a price in US dollars, 0 or more, not {value!r}")
    return amount


@cache
def _table() -> Mapping[str, Known]:
    data = json.loads(files(__package__ or "").joinpath("models.json").read_text(encoding="utf-8"))
    return {
        name: Known(
            Prices(Decimal(one["input"]), Decimal(one["output"]), Decimal(one["cache_read"])),
            one["context_window"],
            one["max_output_tokens"],
            bool(one.get("reasons")),
        )
        for name, one in data["models"].items()
    }
