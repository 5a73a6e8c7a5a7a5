"""What an operator is asked before a plan's modules are started, and the seam to what asks.

A review is made of what the plan says and of what is known of its modules by reading; nothing of them has run. The
answer is good for this review alone: it names the digest of the plan that was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from paddock.plan.permissions import Permissions
from paddock.policy.files.accepted_plans import AcceptedGrant
from paddock.policy.pins import MovedPin
from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class ModuleReview:
    """What one module asks for, and what it would be given.

    `granted` are the grants that the plan itself states, a line each; `needs_trust` those of them that count only once
    the plan is accepted. `given` is what the operator gave it besides, by a flag say. An entry that states none has a
    proposal: `proposed` is what fits it, `proposed_lines` that in words, `lacks` what the module goes without as things
    are. `place` is where the entry stands in the plan.
    """

    name: str
    kind: str
    source: str
    granted: tuple[str, ...] = ()
    needs_trust: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    proposed: Permissions | None = None
    proposed_lines: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True)
class PlanReview:
    """The modules of one plan, `plan` as the person named it, `digest` of what was read.

    `weaker_level` is the isolation level that they would run at, where none of the usual ones can be had. Of a plan
    that `is_accepted` already, by a flag say, only what would be given beyond it is open. `moved` is what the lock file
    pins otherwise than when the plan was accepted last; a review without modules is about nothing else. `warnings` are
    about what the grants of several modules open together.
    """

    plan: str
    digest: str
    modules: tuple[ModuleReview, ...]
    weaker_level: IsolationLevel | None = None
    is_accepted: bool = False
    moved: tuple[MovedPin, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_of_the_lock(self) -> bool:
        """Whether the plan was accepted as it is, and only its pins moved."""
        return not self.modules

    @property
    def needs_trust(self) -> bool:
        """Whether the plan states anything that takes an accepted plan."""
        return any(module.needs_trust for module in self.modules)

    @property
    def has_proposals(self) -> bool:
        """Whether any module would be given something that the plan does not state."""
        return any(module.proposed_lines for module in self.modules)

    @property
    def grants(self) -> tuple[AcceptedGrant, ...]:
        """What is given to modules by accepting the plan."""
        return tuple(
            AcceptedGrant(module.place, module.source, module.proposed)
            for module in self.modules
            if module.proposed is not None
        )


class ConsentAnswer(Enum):
    """What the operator says to a review."""

    ACCEPT = "accept"
    """Take the plan as trusted, and give each module what is proposed; remembered by the plan's digest."""

    AS_IT_IS = "as it is"
    """Give nothing that is proposed; what needs an accepted plan is refused."""

    STOP = "stop"
    """Start nothing."""


class Consent(Protocol):
    """What asks: a person at a terminal, or an application."""

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Show the review and return the answer; with no one there to ask, `AS_IT_IS`."""
        ...
