"""What is decided for one module, and what it was decided by."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.plan.model import ModuleEntry
from paddock.policy.floor import Floor
from paddock.policy.grant_request import OperatorGrant, RequestedGrant, grants_asked, union_of
from paddock.policy.grants import Grants
from paddock.policy.limits import ResourceLimits
from paddock.policy.programs import Program
from paddock.policy.rule import ConsultedRule, Rule
from paddock.policy.rules.networks import ClosedNetwork
from paddock.policy.rules.paths import PathRules
from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class Trust:
    """Whether the operator accepted the plan, and the rule that says so or says why not: a line, a flag."""

    accepted: bool
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """A module that is to be started: its entry, the source it was found at, and what the operator says besides.

    `source` is the one of its resolution, not of its entry: a variable may have put another in its place. `given` is
    granted beyond the entry, `named` the level that a flag gives to entries that name none. `commit` is the one that
    its code was locked to, if it was.
    """

    entry: ModuleEntry
    source: str
    given: tuple[OperatorGrant, ...] = ()
    named: IsolationLevel | None = None
    commit: str = ""

    def effective(self) -> ModuleEntry:
        """Return the entry with all that it is granted."""
        if not self.given:
            return self.entry
        return self.entry.model_copy(update={"permissions": union_of(self.entry, self.given)})

    def grants(self) -> tuple[RequestedGrant, ...]:
        """Return all that it is granted, with who says so."""
        return tuple(grants_asked(self.entry, self.given))


@dataclass(frozen=True, slots=True)
class Decision:
    """What a module may do and use: `entry` has the permissions and limits in effect, `limits` all of its limits.

    `floor` are the levels that it may run at without further leave; `consulted` is every rule that was looked at. It
    connects to none of `closed_networks`.
    """

    entry: ModuleEntry
    limits: ResourceLimits
    floor: Floor
    consulted: tuple[ConsultedRule, ...]
    paths: PathRules
    closed_networks: tuple[ClosedNetwork, ...] = ()

    def check_paths(self, grants: Grants) -> None:
        """Refuse what the module would be shown, if it is no longer what was decided on.

        Raises:
            PolicyRefusedError: A path leads elsewhere by now, to where no rule lets it.
        """
        self.paths.check(grants)

    def lets_see(self, program: Program) -> bool:
        """Return whether the module may be shown a program that it was not granted by its path."""
        return self.paths.lets_see(program)
