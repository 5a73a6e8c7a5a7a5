"""Accepted plans and the grants of their modules, as values; `accepted_plans_text` reads and writes their file.

`pins` is what the lock file beside a plan pinned its sources to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Self

from paddock.plan.permissions import Permissions
from paddock.policy.pins import MovedPin, Pin
from paddock_sources.manifest import permission_request

_DIGITS: Final = 12  # of a digest, where people compare two
_MAX_PINS: Final = 1000  # of one plan; the operator is asked about further ones as about added ones


@dataclass(frozen=True, slots=True)
class AcceptedGrant:
    """The grants of the module at `place` of a plan, valid while its code comes from `source`.

    `without` was missing when they were accepted, and would have been granted too. With `keeps`, its home stays.
    """

    place: str
    source: str
    permissions: Permissions
    line: int | None = None
    without: Permissions = field(default_factory=Permissions)
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    """A plan as it was when it was accepted; `plan` is its file, empty for a plan without one.

    `pins` are those of its sources, None where the pins at its acceptance are unknown. `presets` is their version then.
    """

    digest: str
    plan: str
    accepted_at: datetime
    grants: tuple[AcceptedGrant, ...] = ()
    line: int | None = None
    pins: tuple[Pin, ...] | None = None
    presets: int = 1

    @classmethod
    def now(
        cls, digest: str, plan: str, grants: tuple[AcceptedGrant, ...], pins: tuple[Pin, ...] | None = None
    ) -> Self:
        """Return a plan accepted at this moment."""
        at = datetime.now(UTC).replace(microsecond=0)
        return cls(digest, plan, at, grants, pins=pins, presets=permission_request.PRESETS_VERSION)

    def with_pins(self, moved: Iterable[MovedPin]) -> Self:
        """Return the plan as accepted with the new pins of `moved`, in place of its own for these sources."""
        pins = {pin.source: pin for pin in self.pins or ()}
        for one in moved:
            if one.new is None:
                pins.pop(one.source, None)
            elif one.source in pins or len(pins) < _MAX_PINS:
                pins[one.source] = one.new
        return replace(self, pins=tuple(pins.values()))

    def renewed(self, moved: Iterable[MovedPin]) -> Self:
        """Return the plan as accepted with the new pins of `moved`, where it was accepted with the old ones."""
        if self.pins is None:
            return self
        known = {pin.source: pin for pin in self.pins}
        meant = [one for one in moved if known.get(one.source) == one.old]
        return self.with_pins(meant) if meant else self

    @property
    def day(self) -> str:
        """When it was accepted, for people."""
        return self.accepted_at.astimezone(UTC).strftime("%Y-%m-%d")

    @property
    def short_digest(self) -> str:
        """The beginning of the digest."""
        return self.digest.partition(":")[2][:_DIGITS]

    def grant_for(self, place: str, source: str) -> AcceptedGrant | None:
        """Return what was granted to a module, if the record is about that module."""
        return next((one for one in self.grants if (one.place, one.source) == (place, source)), None)
