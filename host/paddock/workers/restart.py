"""Decide how soon a module that died is started again, and when it no longer is.

Values and arithmetic only: the caller hands in times, in seconds of any steady clock. A module that died once is tried
again at once. One that keeps dying waits longer each time. One that ended too often within the window is quarantined
for good.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """From the second death within `window` on, delays grow from `initial_delay` by `factor` up to `max_delay`.

    `max_deaths` within it quarantine.
    """

    initial_delay: float = 0.1
    factor: float = 2.0
    max_delay: float = 10.0
    max_deaths: int = 5
    window: float = 300.0


@dataclass(frozen=True, slots=True)
class RestartState:
    """The deaths of one module that still count, whether they were too many, and when the next start may be."""

    deaths: tuple[float, ...] = ()
    quarantined: bool = False
    not_before: float = 0.0

    def after_death(self, policy: RestartPolicy, now: float) -> RestartState:
        """Return the state after a death at `now`; quarantine, once reached, stays."""
        deaths = (*(death for death in self.deaths if now - death < policy.window), now)
        # A large exponent overflows long before the product could matter.
        grown = policy.initial_delay * policy.factor ** min(len(deaths) - 2, 64) if len(deaths) > 1 else 0.0
        return RestartState(
            deaths, self.quarantined or len(deaths) >= policy.max_deaths, now + min(policy.max_delay, grown)
        )
