"""The requests, tokens and cost of a chat, summed from events, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from paddock_sdk.kernel.session_stats import Spending as Counted
from paddock_sdk.kernel.session_stats import money

_WORDS: Final = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_read_tokens": "read from the cache",
    "cache_write_tokens": "written to the cache",
    "reasoning_tokens": "of the output spent on reasoning",
}


class Spending(Counted):
    """The sums of a chat."""

    def lines(self, contributed: Iterable[Any]) -> Iterator[str]:
        """Yield the sums as lines of text; `contributed` are the contributions of modules to `session.cost`."""
        spent = self.spent
        if not spent.requests:
            yield "no model has answered a request yet"
            return
        requests = "1 request" if spent.requests == 1 else f"{spent.requests} requests"
        counts = [f"{spent.tokens[name]:,} {word}" for name, word in _WORDS.items() if spent.tokens[name]]
        yield f"{requests}; tokens: {', '.join(counts) or 'not reported'}"
        costs = [
            cost for one in contributed if isinstance(one, Mapping) and (cost := money(one.get("cost_usd"))) is not None
        ]
        by_events = next((one for one in (spent, self.by_providers) if one.has_cost), None)
        if costs:
            yield f"cost: {sum(costs, Decimal(0)):.4f} USD, as reported by the providers"
        elif by_events is not None:
            yield f"cost: {by_events.cost:.4f} USD, as reported by the providers"
        else:
            yield "cost: not reported by the providers"
