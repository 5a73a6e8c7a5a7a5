"""How a plan stands with the operator: whether they accepted it as it is, and what they gave its modules with that.

What was accepted is the plan that had this digest. One that was edited since is another plan, and is told as what it
is. What was given to a module is given to the code it had then, from its source, and to nothing that took its place.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import grants_of, is_program_path
from paddock.plan.problems import NotAcceptedError
from paddock.policy.decision import Trust
from paddock.policy.files.accepted_plans import AcceptedGrant, AcceptedPlan
from paddock.policy.files.grants import GrantsFile, GrantsNotKeptError
from paddock.policy.grant_request import OperatorGrant
from paddock.policy.located_program import environments_in, paths_of
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock.policy.pins import MovedPin, Pin, Pins, moved_pins
from paddock.policy.rule import Location, Rule
from paddock_sandbox.profile import ANY_PROGRAM

_FLAG: Final = Rule(Location("the command line"), "--trust-plan")
_SESSION: Final = Location("this session")


@dataclass(frozen=True, slots=True)
class PlanAcceptance:
    """`accepted` is what the operator accepted of the plan as it is; `problem` why that was kept for this time only.

    `earlier` is what they accepted last of the plan's file, where it was edited since.
    """

    trust: Trust
    accepted: AcceptedPlan | None = None
    file: str = ""
    problem: GrantsNotKeptError | None = None
    earlier: AcceptedPlan | None = None

    @classmethod
    def of(cls, plan: MountPlan, file: GrantsFile, *, trust_plan: bool = False) -> Self:
        """Return how a plan stands; `trust_plan` accepts what its text says, this once.

        Raises:
            PolicyFileError: What was accepted cannot be relied on, or is not understood.
        """
        known = file.all()
        accepted = next((one for one in known if one.digest == plan.digest), None)
        if accepted is not None:
            told = f"accepted on {accepted.day} as it is (sha256 {accepted.short_digest})"
            return cls(Trust(True, file.rule_of(accepted.line, told)), accepted, str(file.path))
        versions = [one for one in known if one.plan and one.plan == plan_name(plan)]
        latest = max(versions, key=lambda one: one.accepted_at, default=None)
        if trust_plan:
            return cls(Trust(True, _FLAG), earlier=latest)
        if latest is None:
            return cls(Trust(False))
        told = f"accepted on {latest.day} as it was then (sha256 {latest.short_digest}), and edited since"
        return cls(Trust(False, file.rule_of(latest.line, told)), earlier=latest)

    @classmethod
    def accepting(
        cls,
        plan: MountPlan,
        file: GrantsFile,
        grants: Iterable[AcceptedGrant] = (),
        pins: Iterable[Pin] | None = None,
    ) -> Self:
        """Have a plan accepted as it is, with these grants and pins; where that cannot be kept, for this time.

        Raises:
            PolicyFileError: What was accepted so far cannot be relied on, or is not understood.
        """
        grants = tuple(grants)
        try:
            accepted = file.accept(plan.digest, plan_name(plan), grants, pins)
        except GrantsNotKeptError as error:
            accepted = AcceptedPlan.now(plan.digest, plan_name(plan), grants)
            return cls(Trust(True, Rule(_SESSION, "accepted when asked")), accepted, problem=error)
        told = f"accepted on {accepted.day} as it is (sha256 {accepted.short_digest})"
        return cls(Trust(True, file.rule_of(accepted.line, told)), accepted, str(file.path))

    def moved(self, now: Pins) -> tuple[MovedPin, ...]:
        """Return what of an accepted plan's sources is pinned otherwise than when it was accepted."""
        return () if self.accepted is None else moved_pins(self.accepted.pins, now)

    def moved_since(self, now: Pins) -> tuple[MovedPin, ...]:
        """Return what is pinned otherwise than in what was accepted before the plan was edited, of what it had then."""
        if self.earlier is None:
            return ()
        return tuple(one for one in moved_pins(self.earlier.pins, now) if one.old is not None)

    def given(self, entry: ModuleEntry, source: str) -> tuple[OperatorGrant, ...]:
        """Return what was given to an entry's module with that, if its code comes from `source` as it did then."""
        grant = self.accepted.grant_for(entry.path, source) if self.accepted is not None else None
        if grant is None:
            return ()
        location = Location(self.file, grant.line) if self.file else _SESSION
        rule = Rule(location, f"given to {entry.path} when the plan was accepted")
        return (OperatorGrant(grant.permissions, rule, stays_inside=True),)


def plan_name(plan: MountPlan) -> str:
    """Return the name that a plan is accepted under: its file, or nothing for one that is in none."""
    return "" if plan.origin is None else os.fsencode(plan.origin).decode("utf-8", "backslashreplace")


def with_places(plan: MountPlan, working_dir: Path, owner: Owner) -> MountPlan:
    """Return the plan by a digest that also depends on where its paths lead, as far as that is outside.

    What is accepted is what they lead to now: a link that is changed later, or another working directory, makes another
    plan of it.
    """
    places = [place for entry in plan.entries() for place in _outside(entry, working_dir, owner)]
    if not places:
        return plan
    told = hashlib.sha256(b"\0".join([plan.digest.encode(), *places]))
    return replace(plan, digest=f"sha256:{told.hexdigest()}")


def _outside(entry: ModuleEntry, working_dir: Path, owner: Owner) -> Iterator[bytes]:
    granted = grants_of(entry.permissions)
    programs = tuple(filter(is_program_path, granted.run))
    folders: dict[Path, None] = {}
    for family, written in (("read", granted.read), ("write", granted.write), ("run", programs)):
        for path in written:
            try:
                places = paths_of(family, path, working_dir, owner)
            except NotAcceptedError:
                continue  # refused, whatever is accepted
            folders |= dict.fromkeys(one.path for one in places if family != "run" and one.is_directory)
            yield from _places_outside(f"{entry.path}.{family}", path, places, working_dir)
    for python in environments_in(folders, working_dir, owner) if ANY_PROGRAM in granted.run else ():
        yield from _places_outside(f"{entry.path}.run", python.name, python.judged, working_dir)


def _places_outside(family: str, written: str, places: Iterable[GrantedPath], working_dir: Path) -> Iterator[bytes]:
    for place in places:
        if not place.path.is_relative_to(working_dir):
            yield b"\0".join([family.encode(), os.fsencode(written), os.fsencode(place.path)])
