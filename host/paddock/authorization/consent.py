"""The question to an operator before a plan's modules are started, and the interface of what asks it.

A review is made of the plan, and of its modules' files, which are only read; nothing of the modules has run. The answer
is good for this review alone: it names the digest of the plan that was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from paddock.plan.permissions import Permissions
from paddock.policy.files.accepted_plans import AcceptedGrant
from paddock.policy.pins import MovedPin
from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class ModuleReview:
    """What one module asks for, and what it would get.

    `granted` are the grants that the plan itself states, a line each; `needs_trust` are those that count only once the
    plan is accepted. `given` are further grants of the operator, by a flag for example. An entry that states none has a
    proposal: `proposed` are fitting grants, `proposed_lines` the same in words, `lacks` what the module still goes
    without, and `missing` what would be proposed too if it were there: a key that is not set, for example. `keeps` says
    that a home that stays is proposed too. `place` is where the entry stands in the plan. `opens` is what the entry
    would state to open what stays closed in folders to write to; None if nothing does, or a flag decides.
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
    missing: Permissions = field(default_factory=Permissions)
    keeps: bool = False
    place: str = ""
    opens: Permissions | None = None


@dataclass(frozen=True, slots=True)
class PlanReview:
    """The modules of one plan: `plan` as the person named it, `digest` of what was read.

    `weaker_level` is the isolation level that they would run at where none of the usual ones is available. Where the
    plan `is_accepted` already, by a flag for example, only grants beyond it are open. `moved` are the lock file's pins
    that differ from those of the last acceptance. `fetches` names what can only be fetched with the operator's own
    rights; `ACCEPT` then allows only the fetching. A review without modules is about `moved` or about `fetches`, which
    is asked before anything is fetched. `warnings` are about what the grants of several modules permit together. `kept`
    are grants of an earlier acceptance that stay, where the plan `is_again` asked about: it was accepted as it is, and
    what its modules could be given has changed since.
    `is_refused_as_it_is` means that nothing starts without an answer: of what takes trust, or without a proposal.
    `told` are the files of the plan's instruction, and `told_outside` those of them that take trust. `notes`
    say what bundles bring, and from which mirrors sources are fetched.
    """

    plan: str
    digest: str
    modules: tuple[ModuleReview, ...]
    weaker_level: IsolationLevel | None = None
    is_accepted: bool = False
    moved: tuple[MovedPin, ...] = ()
    warnings: tuple[str, ...] = ()
    kept: tuple[AcceptedGrant, ...] = ()
    is_again: bool = False
    is_refused_as_it_is: bool = False
    fetches: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    told_outside: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_of_the_lock(self) -> bool:
        """Whether the plan was accepted as it is, and only its pins moved."""
        return not (self.modules or self.fetches)

    @property
    def needs_trust(self) -> bool:
        """Whether the plan states anything that takes an accepted plan."""
        return bool(self.told_outside) or any(module.needs_trust for module in self.modules)

    @property
    def starts_as_it_is(self) -> bool:
        """Whether a session starts if what the review asks for is not given."""
        return not self.is_refused_as_it_is and (self.is_accepted or self.weaker_level is None)

    @property
    def has_proposals(self) -> bool:
        """Whether any module would be given something that the plan does not state."""
        return any(module.proposed_lines for module in self.modules)

    @property
    def grants(self) -> tuple[AcceptedGrant, ...]:
        """The grants that modules get if the plan is accepted, each with what was missing for it."""
        nothing = Permissions()
        new = (
            AcceptedGrant(
                module.place, module.source, module.proposed or nothing, without=module.missing, keeps=module.keeps
            )
            for module in self.modules
            if module.proposed is not None or module.missing != nothing
        )
        return (*self.kept, *new)


class ConsentAnswer(Enum):
    """The operator's answer to a review."""

    ACCEPT = "accept"
    """Trust the plan, and grant each module what is proposed; the answer is stored under the plan's digest."""

    AS_IT_IS = "as it is"
    """Grant nothing that is proposed; a grant that needs an accepted plan is refused."""

    STOP = "stop"
    """Start nothing."""


class Consent(Protocol):
    """Asks an operator: a person at a terminal, or an application.

    An attribute `is_attended` that is false says that no person can be asked: a plan that needs a yes is then refused
    before any of its code is looked for.
    """

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Show the review and return the answer; `AS_IT_IS` where no person is there to ask."""
        ...
