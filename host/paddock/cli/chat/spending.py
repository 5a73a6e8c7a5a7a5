"""The requests, tokens and cost of a chat, summed from events.

A loop and its provider may each report the same request. The loop's reports count; the provider's count where the loop
makes none.
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
    "reasoning_tokens": "of the output spent on reasoning",
}
_LARGEST: Final = 10**12  # tokens of one request; a larger number is ignored


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
        """Add the usage in a `provider:response` or `llm:response`."""
        usage = data.get("usage")
        if not isinstance(usage, Mapping):
            return
        if event == "provider:response":
            self._by_loops.add(usage)
        elif event == "llm:response":
            self._by_providers.add(usage)

    def lines(self, contributed: Iterable[Any]) -> Iterator[str]:
        """Yield the sums as lines of text; `contributed` are the contributions of modules to `session.cost`."""
        spent = self._by_loops if self._by_loops.requests else self._by_providers
        if not spent.requests:
            yield "no model has answered a request yet"
            return
        requests = "1 request" if spent.requests == 1 else f"{spent.requests} requests"
        counts = [f"{spent.tokens[name]:,} {word}" for name, word in _COUNTS.items() if spent.tokens[name]]
        yield f"{requests}; tokens: {', '.join(counts) or 'not reported'}"
        costs = [
            cost for one in contributed if isinstance(one, Mapping) and (cost := money(one.get("cost_usd"))) is not None
        ]
        by_events = next((one for one in (spent, self._by_providers) if one.has_cost), None)
        if costs:
            yield f"cost: {sum(costs, Decimal(0)):.4f} USD, as reported by the providers"
        elif by_events is not None:
            yield f"cost: {by_events.cost:.4f} USD, as reported by the providers"
        else:
            yield "cost: not reported by the providers"


def money(value: object) -> Decimal | None:
    """Return the amount that a module states, or None if the value is no amount."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        amount = Decimal(str(value)[:40])
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and 0 <= amount < 10**9 else None
