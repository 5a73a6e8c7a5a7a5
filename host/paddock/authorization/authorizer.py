"""What the modules of a session may have: what is asked for, what the operator gives, and what the policy lets be.

Decided as a whole, before anything of a module runs; everything wrong is one error. Of secrets only those that are
really used are fetched, once all else is decided. Nothing is decided by what a module says of itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import anyio.to_thread

from paddock.authorization.consent import Consent, ConsentAnswer, PlanReview
from paddock.authorization.review import review_plan
from paddock.errors import ConsentRefusedError, PlanError, PlanProblem
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions, grants_of
from paddock.plan.problems import NotAcceptedError
from paddock.plan.secret_references import secrets_in_use
from paddock.plan.source_map import Location, Positions
from paddock.policy.decision import Decision
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.accepted_plans import AcceptedPlan
from paddock.policy.files.grants import GrantsFile, GrantsNotKeptError
from paddock.policy.files.policy import Policy
from paddock.policy.grant_request import GrantRequest, OperatorGrant
from paddock.policy.owner import Owner
from paddock.policy.pins import LockMovedError, Pins
from paddock.policy.rule import Rule
from paddock.policy.secrets.store import SecretSources
from paddock.policy.secrets.values import SecretValues
from paddock.policy.trust import PlanAcceptance, Trust, with_places
from paddock_sandbox.profile import IsolationLevel
from paddock_sources import Resolution

WeakerLevel = Callable[[], Awaitable[IsolationLevel | None]]
"""Finds out the level below the usual ones that modules would run at, if no better one can be had."""

_log = logging.getLogger(__name__)

_BY_FLAGS: Final = Trust(True, Rule(Location("the command line"), "--allow-… and --config"))
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_PINS: Final[Pins] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AuthorizedModule:
    """A module that may be started: what was decided, and where its code is."""

    decision: Decision
    resolution: Resolution

    @property
    def entry(self) -> ModuleEntry:
        """The entry with the permissions and limits in effect."""
        return self.decision.entry


@dataclass(frozen=True, slots=True)
class Authorization:
    """All the modules of a session, in their order, and the secrets they use; `plan` is where they come from, if any.

    `accepts_weaker` says that the operator accepted a plan, and with it a weaker isolation level than usual; `digest`
    is the plan's as it was judged, with where its paths lead.
    """

    modules: tuple[AuthorizedModule, ...]
    trust: Trust
    secrets: SecretValues
    accepts_weaker: bool = False
    digest: str = ""
    plan: MountPlan | None = None


class Authorizer:
    """Decides for one user in one working directory."""

    def __init__(self, working_dir: Path, environ: Mapping[str, str], policy: Policy, secrets: SecretSources) -> None:
        self._working_dir = working_dir
        self._owner = Owner.current(environ)
        self._environ = environ
        self._policy = policy
        self._secrets = secrets
        self._grants_file = GrantsFile.of_user(environ)

    @classmethod
    async def at_work(cls, working_dir: Path, environ: Mapping[str, str], policy: Policy | None) -> Self:
        """Read what the operator wrote: the policy, which `policy` can only narrow, and where secrets are.

        Raises:
            PolicyFileError: a file of the operator's cannot be relied on.
        """
        return await anyio.to_thread.run_sync(cls._read, working_dir, environ, policy)

    @classmethod
    def _read(cls, working_dir: Path, environ: Mapping[str, str], policy: Policy | None) -> Self:
        written = Policy.load(environ)
        bounds = written if policy is None else written.narrowed_by(policy)
        return cls(working_dir, environ, bounds, SecretSources.load(environ))

    @property
    def policy(self) -> Policy:
        """What bounds all that is granted."""
        return self._policy

    async def is_accepted(self, plan: MountPlan, *, trust_plan: bool = False) -> bool:
        """Return whether a plan was accepted as it is.

        Raises:
            PolicyFileError: what was accepted cannot be relied on.
        """

        def look() -> bool:
            judged = with_places(plan, self._working_dir, self._owner)
            return PlanAcceptance.of(judged, self._grants_file, trust_plan=trust_plan).trust.accepted

        return await anyio.to_thread.run_sync(look)

    async def check_pins(
        self, plan: MountPlan, pins: Pins, lock: Path, *, trust_plan: bool, consent: Consent | None
    ) -> None:
        """Have it accepted, once, that `lock` pins the sources of an accepted plan otherwise than when it was accepted.

        Before anything is fetched: who moves a pin chooses the code that runs. `trust_plan` takes the pins as they are,
        this once. Of a plan that was not accepted nothing is asked here: its code is fetched without the user's keys.

        Raises:
            LockMovedError: there was no one to ask.
            ConsentRefusedError: the answer is to start nothing.
            PolicyFileError: what was accepted cannot be relied on.
        """
        if trust_plan or plan.origin is None:
            return
        plan = await anyio.to_thread.run_sync(with_places, plan, self._working_dir, self._owner)
        acceptance = await anyio.to_thread.run_sync(PlanAcceptance.of, plan, self._grants_file)
        moved = acceptance.moved(pins)
        if not moved:
            return
        review = PlanReview(str(plan.origin), plan.digest, (), is_accepted=True, moved=moved)
        match ConsentAnswer.AS_IT_IS if consent is None else await consent.ask(review):
            case ConsentAnswer.AS_IT_IS:
                raise LockMovedError(review.plan, lock, moved)
            case ConsentAnswer.STOP:
                raise ConsentRefusedError(review.plan)
        try:
            await anyio.to_thread.run_sync(self._grants_file.accept_pins, plan.digest, moved)
        except GrantsNotKeptError as error:
            _log.warning("accepted for this time only: %s", error)

    async def authorize_call(
        self, entry: ModuleEntry, resolution: Resolution, named: IsolationLevel | None
    ) -> Authorization:
        """Clear the one module of a call, whose entry is made of flags.

        Raises:
            PolicyRefusedError, PlanError, SecretError: it may not be called like that.
        """
        return await self._authorize(
            [GrantRequest(entry, resolution.source, (), named, resolution.commit)], [resolution], _BY_FLAGS, None
        )

    async def authorize_plan(
        self,
        plan: MountPlan,
        resolutions: Mapping[str, Resolution],
        *,
        trust_plan: bool = False,
        grants: Mapping[str, str] = _NONE,
        named: IsolationLevel | None = None,
        consent: Consent | None = None,
        pins: Pins = _NO_PINS,
        weaker_level: WeakerLevel,
    ) -> Authorization:
        """Clear the modules of a plan, whose code is at `resolutions`, by the places of their entries.

        `trust_plan` accepts what the plan says this once, `grants` names presets for modules, `consent` is asked about
        a plan that was not accepted before, if it asks for anything or lacks something that would fit it; it is then
        accepted with `pins`, those that its code was chosen by. `weaker_level` tells what else is accepted with that.

        Raises:
            ConsentRefusedError: the answer is to start nothing.
            PolicyRefusedError, PlanError, PolicyFileError, SecretError: it may not be started like that.
        """
        given, written = _given_by_flags(plan, grants), plan
        plan = await anyio.to_thread.run_sync(with_places, plan, self._working_dir, self._owner)
        acceptance = await anyio.to_thread.run_sync(
            partial(PlanAcceptance.of, plan, self._grants_file, trust_plan=trust_plan)
        )
        asked = _asked(plan, resolutions, given, named, acceptance)
        if consent is not None and (acceptance.accepted is None or _is_for_other_code(acceptance.accepted, asked)):
            context = self._situation(acceptance.trust, plan.positions, _folder_of(plan))
            review = await anyio.to_thread.run_sync(review_plan, plan, asked, resolutions, context, self._environ)
            if review.has_proposals or (review.needs_trust and not acceptance.trust.accepted):
                review = replace(
                    review,
                    weaker_level=await weaker_level(),
                    is_accepted=acceptance.trust.accepted,
                    moved=acceptance.moved_since(pins),
                )
                acceptance = await self._ask(consent, review, plan, pins) or acceptance
                asked = _asked(plan, resolutions, given, named, acceptance)
        codes = [resolutions[one.entry.path] for one in asked]
        authorization = await self._authorize(asked, codes, acceptance.trust, plan.positions, _folder_of(plan))
        return replace(authorization, accepts_weaker=acceptance.trust.accepted, digest=plan.digest, plan=written)

    async def check_places(self, authorization: Authorization) -> None:
        """Refuse a plan with a path that leads elsewhere outside the working directory than when it was judged.

        Raises:
            PlanError: one does, so that something else than was accepted would be granted.
        """
        plan = authorization.plan
        if plan is None:
            return
        now = await anyio.to_thread.run_sync(with_places, plan, self._working_dir, self._owner)
        if now.digest != authorization.digest:
            problem = PlanProblem("", "a path in it leads elsewhere than when it was judged", "see where it leads now")
            raise PlanError([problem], origin=None if plan.origin is None else str(plan.origin))

    async def _ask(self, consent: Consent, review: PlanReview, plan: MountPlan, pins: Pins) -> PlanAcceptance | None:
        """Return what was accepted, and see to it that it is remembered; None if nothing was.

        Raises:
            ConsentRefusedError: nothing is to be started.
        """
        match await consent.ask(review):
            case ConsentAnswer.AS_IT_IS:
                return None
            case ConsentAnswer.STOP:
                raise ConsentRefusedError(review.plan)
        known = [pin for pin in pins.values() if pin is not None]
        accepted = await anyio.to_thread.run_sync(
            PlanAcceptance.accepting, plan, self._grants_file, review.grants, known
        )
        if accepted.problem is not None:
            _log.warning("accepted for this time only: %s", accepted.problem)
        return accepted

    def _situation(self, trust: Trust, positions: Positions | None, folder: Path | None) -> EvaluationContext:
        return EvaluationContext(self._policy, trust, self._working_dir, self._owner, self._secrets, positions, folder)

    async def _authorize(
        self,
        asked: Sequence[GrantRequest],
        resolutions: Sequence[Resolution],
        trust: Trust,
        positions: Positions | None,
        folder: Path | None = None,
    ) -> Authorization:
        context = self._situation(trust, positions, folder)
        # In a thread: paths are followed and files looked at.
        decisions = await anyio.to_thread.run_sync(evaluate, asked, context)
        wanted = {
            name: decision.entry.path
            for decision in decisions
            for name in secrets_in_use(decision.entry.config, grants_of(decision.entry.permissions))
        }
        values = await self._secrets.fetch(wanted, positions=positions)
        kept = SecretValues(values)
        for name in kept.unmasked:
            _log.warning("the value of secret `%s` is too short to be hidden where it is printed", name)
        return Authorization(tuple(map(AuthorizedModule, decisions, resolutions)), trust, kept)


def _folder_of(plan: MountPlan) -> Path | None:
    return plan.origin.parent if plan.origin is not None else None


def _asked(
    plan: MountPlan,
    resolutions: Mapping[str, Resolution],
    given: Mapping[str, tuple[OperatorGrant, ...]],
    named: IsolationLevel | None,
    acceptance: PlanAcceptance,
) -> list[GrantRequest]:
    """Return what each module asks for, with what flags give it, or else what it was given when asked."""
    asked = []
    for entry in plan.entries():
        code = resolutions[entry.path]
        granted = given.get(entry.path) or acceptance.given(entry, code.source)
        asked.append(GrantRequest(entry, code.source, granted, named, code.commit))
    return asked


def _is_for_other_code(accepted: AcceptedPlan, asked: Sequence[GrantRequest]) -> bool:
    """Whether something was given to a module whose code comes from elsewhere by now."""
    sources = {one.entry.path: one.source for one in asked}
    return any(sources.get(grant.place, grant.source) != grant.source for grant in accepted.grants)


def _given_by_flags(plan: MountPlan, grants: Mapping[str, str]) -> dict[str, tuple[OperatorGrant, ...]]:
    """Return what presets flags give, by the place of the entry.

    Raises:
        PlanError: there is no such module in the plan, or no such preset.
    """
    given: dict[str, tuple[OperatorGrant, ...]] = {}
    problems: list[PlanProblem] = []
    for name, preset in grants.items():
        entries = [entry for entry in plan.entries() if name in (entry.instance_id, entry.module)]
        if not entries:
            names = list(dict.fromkeys(entry.instance_id or entry.module for entry in plan.entries()))
            close = get_close_matches(name, names, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"its modules: {', '.join(names)}"
            problems.append(PlanProblem("--grant", f"the plan has no module `{name}`", hint))
        try:
            permissions = Permissions.parse(preset)
        except NotAcceptedError as error:
            problems.append(PlanProblem("--grant", error.problem, error.accepted))
            continue
        rule = Rule(Location("the command line"), f"--grant {name}={preset}")
        for entry in entries:
            # What is said of one instance goes before what is said of all that the module has.
            if entry.path not in given or name == entry.instance_id:
                given[entry.path] = (OperatorGrant(permissions, rule),)
    if problems:
        raise PlanError(problems)
    return given
