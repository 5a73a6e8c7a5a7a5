"""What a session did, for the event of its end: turns, calls of tools, requests to models, tokens, cost, time.

All but turns and time is counted from events, as modules report it, from the first turn in which something handles the
session's end. A loop and its provider may each report the same request: the loop's reports count, and the provider's
where the loop makes none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from paddock_sdk.contract.events import LLM_RESPONSE, PROVIDER_RESPONSE, SESSION_END, TOOL_PRE

if TYPE_CHECKING:
    from paddock_sdk.kernel.hooks import HookRegistry

_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_LARGEST: Final = 10**12  # tokens of one request; a larger number is ignored
_FIRST: Final = -(2**31)  # before every handler that could keep an event from others


@dataclass(slots=True)
class Spent:
    """The sums of some requests to models; `cost` is in US dollars."""

    requests: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    cost: Decimal = Decimal(0)
    has_cost: bool = False

    def add(self, usage: Mapping[str, Any]) -> None:
        """Add one request's usage; what is no number of tokens or no amount is left out."""
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
    """The sums of what loops report, and of what providers do."""

    def __init__(self) -> None:
        self.by_loops = Spent()
        self.by_providers = Spent()

    def take(self, event: str, data: Mapping[str, Any]) -> None:
        """Add the usage in a `provider:response` or `llm:response`."""
        usage = data.get("usage")
        if not isinstance(usage, Mapping):
            return
        if event == PROVIDER_RESPONSE:
            self.by_loops.add(usage)
        elif event == LLM_RESPONSE:
            self.by_providers.add(usage)

    @property
    def spent(self) -> Spent:
        """The sums that count."""
        return self.by_loops if self.by_loops.requests else self.by_providers


class SessionStats:
    """The counts of one session."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._turns = 0
        self._tool_calls = 0
        self._spending = Spending()
        self._is_counting = False

    def begin_turn(self, hooks: HookRegistry) -> None:
        """Count a turn, and from now on events, if something is to hear of them."""
        self._turns += 1
        if not self._is_counting and hooks.has_handlers(SESSION_END):
            self._is_counting = True
            for event in (TOOL_PRE, PROVIDER_RESPONSE, LLM_RESPONSE):
                hooks.register(event, self._take, priority=_FIRST, name="session.stats")

    def _take(self, event: str, data: Any) -> None:
        if event == TOOL_PRE:
            self._tool_calls += 1
        elif isinstance(data, Mapping):
            self._spending.take(event, data)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as data for JSON; the cost is None where no provider reports one."""
        spent = self._spending.spent
        return {
            "turns": self._turns,
            "tool_calls": self._tool_calls,
            "requests": spent.requests,
            **{name: spent.tokens[name] for name in ("input_tokens", "output_tokens")},
            "cost_usd": str(spent.cost) if spent.has_cost else None,
            "duration_seconds": round(time.monotonic() - self._began, 3),
        }


def money(value: object) -> Decimal | None:
    """Return the amount that a module states, or None if the value is no amount."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        amount = Decimal(str(value)[:40])
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and 0 <= amount < 10**9 else None
