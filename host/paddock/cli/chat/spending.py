"""What the turns of a chat took: tokens, requests and money, added up from what events say of them.

A request may be told of twice, by the provider that made it and by the loop that asked for it. The loop's word counts;
the provider's counts where the loop says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

_COUNTS: Final = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_read_tokens": "read from the cache",
    "cache_write_tokens": "written to the cache",
    "reasoning_tokens": "of the output for reasoning",
}
_LARGEST: Final = 10**12  # tokens of one request; a number beyond it is none


@dataclass(slots=True)
class _Spent:
    requests: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    cost: Decimal = Decimal(0)
    has_cost: bool = False

    def add(self, usage: Mapping[str, Any]) -> None:
        self.requests += 1
        for name in _COUNTS:
            value = usage.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST:
                self.tokens[name] += value
        cost = money(usage.get("cost_usd"))
        if cost is not None:
            self.cost += cost
            self.has_cost = True


class Spending:
    """The sums of a chat."""

    def __init__(self) -> None:
        self._by_loops = _Spent()
        self._by_providers = _Spent()

    def take(self, event: str, data: Mapping[str, Any]) -> None:
        """Add what `provider:response` or `llm:response` says."""
        usage = data.get("usage")
        if not isinstance(usage, Mapping):
            return
        if event == "provider:response":
            self._by_loops.add(usage)
        elif event == "llm:response":
            self._by_providers.add(usage)

    def lines(self, contributed: Iterable[Any]) -> Iterator[str]:
        """Yield what is told of it; `contributed` is what modules say at the channel `session.cost`."""
        spent = self._by_loops if self._by_loops.requests else self._by_providers
        if not spent.requests:
            yield "no request to a model was answered yet"
            return
        requests = "1 request" if spent.requests == 1 else f"{spent.requests} requests"
        told = [f"{spent.tokens[name]:,} {word}" for name, word in _COUNTS.items() if spent.tokens[name]]
        yield f"{requests}; tokens: {', '.join(told) or 'not told'}"
        costs = [
            cost for one in contributed if isinstance(one, Mapping) and (cost := money(one.get("cost_usd"))) is not None
        ]
        by_events = next((one for one in (spent, self._by_providers) if one.has_cost), None)
        if costs:
            yield f"cost: {sum(costs, Decimal(0)):.4f} USD, as the providers tell it"
        elif by_events is not None:
            yield f"cost: {by_events.cost:.4f} USD, as the providers tell it"
        else:
            yield "cost: no provider tells one"


def money(value: object) -> Decimal | None:
    """Return an amount that a module states, or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        amount = Decimal(str(value)[:40])
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and 0 <= amount < 10**9 else None
