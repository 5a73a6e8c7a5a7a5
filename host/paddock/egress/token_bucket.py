"""How often something may be done: so much at once, and so much a second after that.

A bucket of tokens that fills up by looking at the time. Whoever finds it empty is told how long to leave the work where
it is: in the kernel's own queues, which are bounded too.
"""

from __future__ import annotations

import asyncio


class PacedTokenBucket:
    """A bucket that holds `at_once` tokens and gains `per_second`; it begins full."""

    __slots__ = ("_at_once", "_per_second", "_since", "_tokens")

    def __init__(self, per_second: float, at_once: float) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._tokens = at_once
        self._since = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token, 0 if there is one; `now` is of a clock that never goes back."""
        self._tokens = min(self._at_once, self._tokens + (now - self._since) * self._per_second)
        self._since = now
        return max(0.0, (1.0 - self._tokens) / self._per_second)

    async def has_token(self) -> None:
        """Return when there is a token, unless another has it by then."""
        seconds = self.wait(asyncio.get_running_loop().time())
        if seconds:
            await asyncio.sleep(seconds)

    def take(self, tokens: float = 1.0) -> None:
        """Take tokens, of which one has to be there; those beyond it are a debt, and the next wait is longer."""
        self._tokens -= tokens

    async def spend(self) -> None:
        """Take a token in advance, and return when it would have been there."""
        seconds = self.wait(asyncio.get_running_loop().time())
        self.take()
        if seconds:
            await asyncio.sleep(seconds)
