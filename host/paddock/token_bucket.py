"""Limit the rate of an action: a burst at once, and a number a second after that.

The bucket refills by reading the time, so it needs neither a timer nor a task. A caller that finds it empty either
refuses (`admits`) or slows down (`wait`, `spend`) and leaves the work in the kernel's own queues, which are bounded
too. All refusals until the bucket has had the time to fill up again count as one flood. `now` is always in seconds of a
clock that never goes back.
"""

from __future__ import annotations

import asyncio


class TokenBucket:
    """A bucket that holds `at_once` tokens and gains `per_second`; it begins full."""

    __slots__ = ("_since", "_tokens", "at_once", "per_second", "refused")

    def __init__(self, per_second: float, at_once: float) -> None:
        self.per_second = per_second
        self.at_once = at_once
        self.refused = 0  # of the present flood, or of the last
        self._tokens = at_once
        self._since = 0.0

    def admits(self, now: float, tokens_wanted: float = 1.0) -> bool:
        """Take this many tokens if the bucket holds them at `now`; return whether it did."""
        self._fill(now)
        if self._tokens >= self.at_once:
            self.refused = 0
        if self._tokens >= tokens_wanted:
            self._tokens -= tokens_wanted
            return True
        self.refused += 1
        return False

    def owe(self, now: float, tokens: float) -> float:
        """Take this many tokens even if the bucket lacks them; return the seconds until the debt is paid."""
        self._fill(now)
        self._tokens -= tokens
        return 0.0 if self._tokens >= 0 else -self._tokens / self.per_second

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token, 0 if there is one."""
        self._fill(now)
        return max(0.0, (1.0 - self._tokens) / self.per_second)

    def take(self, tokens: float = 1.0) -> None:
        """Take tokens. One has to be there; the others may be a debt, which makes the next wait longer."""
        self._tokens -= tokens

    async def has_token(self) -> None:
        """Return once there is a token, which another caller may have taken by then."""
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
