"""How often something may be done: so much at once, and so much a second after that.

A bucket of tokens that fills up by looking at the time, so that keeping count takes neither a timer nor a task. A
caller that finds it empty either refuses (`admits`) or slows down (`wait`, `spend`) and leaves the work in the kernel's
own queues, which are bounded too. What is refused is one flood, however long it goes on, until the bucket has had the
time to fill up again. `now` is always in seconds of a clock that never goes back.
"""

from __future__ import annotations

import asyncio


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
        """Take as many tokens, if there are at `now`."""
        self._fill(now)
        if self._tokens >= self.at_once:
            self.refused = 0
        if self._tokens >= tokens_wanted:
            self._tokens -= tokens_wanted
            return True
        self.refused += 1
        return False

    def owe(self, now: float, tokens: float) -> float:
        """Take as many tokens, there or not; return the seconds until none are owed any more."""
        self._fill(now)
        self._tokens -= tokens
        return 0.0 if self._tokens >= 0 else -self._tokens / self.per_second

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token, 0 if there is one."""
        self._fill(now)
        return max(0.0, (1.0 - self._tokens) / self.per_second)

    def take(self, tokens: float = 1.0) -> None:
        """Take tokens, of which one has to be there; those beyond it are a debt, and the next wait is longer."""
        self._tokens -= tokens

    async def has_token(self) -> None:
        """Return when there is a token, unless another has it by then."""
        if seconds := self.wait(asyncio.get_running_loop().time()):
            await asyncio.sleep(seconds)

    async def spend(self) -> None:
        """Take a token in advance, and return when it would have been there."""
        if seconds := self.owe(asyncio.get_running_loop().time(), 1.0):
            await asyncio.sleep(seconds)

    @property
    def begins_flood(self) -> bool:
        """Whether what was refused just now is the first of a flood."""
        return self.refused == 1

    def describe(self) -> str:
        """Return the bound as people say it."""
        return f"{self.at_once:g} at once and {self.per_second:g} a second"

    def _fill(self, now: float) -> None:
        self._tokens = min(self.at_once, self._tokens + (now - self._since) * self.per_second)
        self._since = now
