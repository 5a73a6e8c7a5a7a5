"""How often something may be done: so much at once, and so much a second after that.

A bucket of tokens that fills up by looking at the time, so that keeping count takes neither a timer nor a task. What is
over it is one flood, however long it goes on, until the bucket has had the time to fill up again.
"""

from __future__ import annotations


class TokenBucket:
    """A bucket that holds `at_once` tokens and gains `per_second`; it begins full."""

    __slots__ = ("_since", "_tokens", "at_once", "per_second", "refused")

    def __init__(self, per_second: float, at_once: float) -> None:
        self.per_second = per_second
        self.at_once = at_once
        self.refused = 0  # of the flood that goes on, or was the last
        self._tokens = at_once
        self._since = 0.0

    def admits(self, now: float, tokens_wanted: float = 1.0) -> bool:
        """Take as many tokens, if there are at `now`, in seconds of a clock that never goes back."""
        tokens = self._tokens + (now - self._since) * self.per_second
        self._since = now
        if tokens >= self.at_once:
            tokens = self.at_once
            self.refused = 0
        if tokens >= tokens_wanted:
            self._tokens = tokens - tokens_wanted
            return True
        self._tokens = tokens
        self.refused += 1
        return False

    def owe(self, now: float, tokens: float) -> float:
        """Take as many tokens, there or not; return the seconds until none are owed any more."""
        self._tokens = min(self._tokens + (now - self._since) * self.per_second, self.at_once) - tokens
        self._since = now
        return 0.0 if self._tokens >= 0 else -self._tokens / self.per_second

    @property
    def begins_flood(self) -> bool:
        """Whether what was refused just now is the first of a flood."""
        return self.refused == 1

    def describe(self) -> str:
        """Return the bound as people say it."""
        return f"{self.at_once:g} at once and {self.per_second:g} a second"
