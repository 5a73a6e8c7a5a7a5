"""The known facts about models: prices and sizes, from `models.json` and from the configuration.

The table names its date and its source. A model that is missing from it has no price, so no cost is reported, and is
taken to be one of the smaller ones.
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

from amplifier_core.models import Pricing

_DATED = re.compile(r"-\d{8}$")  # a name with its date means the same model as the name alone
_MILLION = Decimal(1_000_000)
_NAMES = ("input_per_million", "output_per_million", "cache_read_per_million", "cache_write_per_million")
_LONG = "long_prompt"


@dataclass(slots=True)
class Spent:
    """Tokens; `fresh` were neither read from the cache nor written to it."""

    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    thinking: int | None = None

    @property
    def read(self) -> int:
        return self.fresh + self.cache_read + self.cache_write

    def take(self, usage: Any) -> None:
        """Add an event's values; others stay."""
        for name, theirs in (
            ("fresh", "input_tokens"),
            ("cache_read", "cache_read_input_tokens"),
            ("cache_write", "cache_creation_input_tokens"),
            ("output", "output_tokens"),
        ):
            count = getattr(usage, theirs, None)
            if _is_count(count):
                setattr(self, name, count)
        thinking = getattr(getattr(usage, "output_tokens_details", None), "thinking_tokens", None)
        if _is_count(thinking):
            self.thinking = thinking

    def add(self, other: Spent) -> None:
        self.fresh += other.fresh
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.output += other.output
        if other.thinking is not None:
            self.thinking = (self.thinking or 0) + other.thinking


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of a million tokens, in US dollars.

    `long` holds for all of a request whose prompt has more than `above` tokens.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    above: int = 0
    long: Prices | None = None

    def cost(self, spent: Spent) -> Decimal:
        """Return the cost of an answer."""
        if self.long is not None and spent.read > self.above:
            return self.long.cost(spent)
        read = spent.fresh * self.input + spent.cache_read * self.cache_read + spent.cache_write * self.cache_write
        return (read + spent.output * self.output) / _MILLION

    def pricing(self) -> Pricing:
        """Return the prices as the contract writes them."""
        return Pricing(
            input_per_million=float(self.input),
            output_per_million=float(self.output),
            cache_read_per_million=float(self.cache_read),
            cache_write_per_million=float(self.cache_write),
        )


@dataclass(frozen=True, slots=True)
class Known:
    """The known facts about one model; sizes are in tokens. One that `thinks` does so unless a request turns it off."""

    prices: Prices | None = None
    context_window: int = 200_000
    max_output_tokens: int = 64_000
    thinks: bool = False


class Catalogue:
    """The known models; prices of the configuration take precedence over the table's."""

    def __init__(self, prices: Mapping[str, Prices]) -> None:
        self._prices = prices

    def of(self, model: str) -> Known:
        """Return the known facts about a model."""
        short = _DATED.sub("", model)
        known = _table().get(model) or _table().get(short) or Known()
        prices = self._prices.get(model) or self._prices.get(short) or known.prices
        return Known(prices, known.context_window, known.max_output_tokens, known.thinks)

    def names(self) -> list[str]:
        """Return the models of the table."""
        return list(_table())

    @staticmethod
    def prices_of(config: Any) -> dict[str, Prices]:
        """Return the prices in a configuration, by model.

        Raises:
            ValueError: its form is wrong; the message names the place.
        """
        if not isinstance(config, Mapping):
            raise ValueError("provider-anthropic: `prices` must be a mapping of models to prices")
        return {str(model): _prices(given, f"provider-anthropic: `prices.{model}`") for model, given in config.items()}


def _prices(given: Any, place: str) -> Prices:
    if not isinstance(given, Mapping) or not set(_NAMES[:2]) <= set(given) <= {*_NAMES, _LONG}:
        optional = ", ".join(f"`{name}`" for name in (*_NAMES[2:], _LONG))
        raise ValueError(f"{place} must have `{_NAMES[0]}` and `{_NAMES[1]}`, and may have {optional}")
    rates = {name: _amount(given[name], f"{place}.{name}") for name in _NAMES if name in given}
    fresh = rates[_NAMES[0]]
    # Most models' cache costs a tenth of the input to read, and a quarter more than it to write.
    made = Prices(fresh, rates[_NAMES[1]], rates.get(_NAMES[2], fresh / 10), rates.get(_NAMES[3], fresh * 5 / 4))
    beyond = given.get(_LONG)
    if beyond is None:
        return made
    if not isinstance(beyond, Mapping) or not isinstance(beyond.get("above"), int):
        raise ValueError(f"{place}.{_LONG} must have `above`, a number of tokens, and the prices beyond it")
    rest = {name: value for name, value in beyond.items() if name != "above"}
    long = _prices(rest, f"{place}.{_LONG}")
    return Prices(made.input, made.output, made.cache_read, made.cache_write, beyond["above"], long)


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
            _prices({**one["prices"]}, name),
            one["context_window"],
            one["max_output_tokens"],
            bool(one.get("thinks")),
        )
        for name, one in data["models"].items()
    }
