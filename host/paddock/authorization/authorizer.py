"""Authorise the modules of a session: what they ask for, what the operator grants, and what the policy permits.

The decision is about all modules at once, before any of their code runs; one error names everything that is wrong. Only
secrets that the session uses are fetched, after everything else is decided. A module's own statements decide nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

import anyio.to_thread

from paddock.errors import ConsentRefusedError, PlanError, PlanProblem
from paddock.plan.families import EXCLUDED_SECRETS
from paddock.plan.limits import Total
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions, added_grants, grants_of, preset_grants
from paddock.plan.problems import NotAcceptedError
from paddock.plan.secret_references import how_to_set, secrets_in_use
from paddock.plan.source_map import Location, Positions
from paddock.policy.decision import Decision
from paddock.policy.evaluate import (
    EvaluationContext,
    evaluate,
    lacks_secrets,
    raise_findings,
    refuse_secrets,
    refuse_unaccepted,
)
from paddock.policy.files.accepted_plans import AcceptedGrant, AcceptedPlan
from paddock.policy.files.grants import GrantsFile, GrantsNotKeptError
from paddock.policy.files.policy import Policy
from paddock.policy.grant_request import ModuleRequest, OperatorGrant
from paddock.policy.limits import judge_totals
from paddock.policy.owner import Owner
from paddock.policy.pins import LockMovedError, Pins
from paddock.policy.rule import PolicyFindings, Rule
from paddock.policy.secrets.store import SecretSources
from paddock.policy.secrets.values import SecretValues
from paddock.policy.trust import PlanAcceptance, Trust, instruction_findings, own_rights_findings, with_places
from paddock.state_folder import state_folder
from paddock_sandbox.profile import IsolationLevel
from paddock_sources import Resolution
from paddock_sources.manifest import permission_request
from paddock_sources.similar_names import meant

if TYPE_CHECKING:
    from paddock.authorization.consent import Consent, PlanReview

WeakerLevel = Callable[[], Awaitable[IsolationLevel | None]]
"""Finds the level, weaker than the usual ones, that modules would run at if no better one is available."""

_log = logging.getLogger(__name__)

_TOLD: Final = "presets"  # in the state folder: the version of the presets that the user was told of
_BY_FLAGS: Final = Trust(True, Rule(Location("the command line"), "--allow-… and --config"))
_NO_PINS: Final[Pins] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AuthorizedModule:
    """A module that may be started: the decision about it, and where its code is."""

    decision: Decision
    resolution: Resolution

    @property
    def entry(self) -> ModuleEntry:
        """The entry with the permissions and limits in effect."""
        return self.decision.entry


@dataclass(frozen=True, slots=True)
class Authorization:
    """All modules of a session in their order, the secrets they use, and the `plan` they come from, if any.

    `accepts_weaker` means that the operator accepted a plan, and with it a weaker isolation level than usual. `digest`
    is that of the plan as it was judged, including where its paths lead. `totals` hold for all modules together.
    """

    modules: tuple[AuthorizedModule, ...]
    trust: Trust
    secrets: SecretValues
    accepts_weaker: bool = False
    digest: str = ""
    plan: MountPlan | None = None
    totals: tuple[Total, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanStart:
    """A plan that is to be started, and how.

    Attributes:
        trust_plan: accepts the plan's own grants and pins this once.
        grants: names presets for modules.
        named: the isolation level of entries that name none.
        consent: is asked about what the operator did not accept before.
        asks_anyway: has it be asked about a plan that was not accepted even if that needs no yes.
    """

    plan: MountPlan
    trust_plan: bool = False
    grants: Mapping[str, str] = field(default_factory=dict)
    named: IsolationLevel | None = None
    consent: Consent | None = None
    asks_anyway: bool = False


class Authorizer:
    """Authorises modules for one user in one working directory."""

    def __init__(
        self,
        working_dir: Path,
        environ: Mapping[str, str],
        policy: Policy,
        secrets: SecretSources,
    ) -> None:
        self._working_dir = working_dir
        self._owner = Owner.current(environ)
        self._environ = environ
        self.policy = policy  # that bounds every grant
        self._secrets = secrets
        self._grants_file = GrantsFile.of_user(environ)

    @classmethod
    async def at_work(cls, working_dir: Path, environ: Mapping[str, str], policy: Policy | None) -> Self:
        """Read the operator's files: the policy, which `policy` can only narrow, and where secrets are.

        Raises:
            PolicyFileError: an operator file cannot be trusted or understood.
        """
        return await anyio.to_thread.run_sync(cls._read, working_dir, environ, policy)

    @classmethod
    def _read(cls, working_dir: Path, environ: Mapping[str, str], policy: Policy | None) -> Self:
        written = Policy.load(environ)
        bounds = written if policy is None else written.narrowed_by(policy)
        return cls(working_dir, environ, bounds, SecretSources.load(environ))

    async def is_accepted(self, plan: MountPlan, *, trust_plan: bool = False) -> bool:
        """Return whether the operator accepted a plan as it is.

        Raises:
            PolicyFileError: the record of accepted plans cannot be trusted or understood.
        """
        _, acceptance = await self._acceptance(plan, trust_plan=trust_plan)
        return acceptance.trust.accepted

    async def check_plan(self, start: PlanStart) -> None:
        """Refuse at once what the plan and the flags alone show, before any code of it is looked for.

        A secret that is not set is refused here only in a plan that the operator accepted: in another one it is
        reported together with what takes consent.

        Raises:
            PlanError: a grant names no module of the plan, or a secret is not set.
            PolicyRefusedError: the plan needs a yes, and no person can give it.
            PolicyFileError: the record of accepted plans cannot be trusted or understood.
        """
        given, plan = _given_by_flags(start), start.plan
        # A rule of a policy may be about the code of a module, so what it decides is known later.
        if not (self.policy.files or getattr(start.consent, "is_attended", start.consent is not None)):
            await anyio.to_thread.run_sync(self._refuse_unaccepted, start, given)
        lacking = [one for one in plan.entries() if lacks_secrets(one, self._secrets)]
        if lacking and await self.is_accepted(plan, trust_plan=start.trust_plan):
            refuse_secrets(lacking, self._secrets, plan.positions)

    async def _acceptance(self, plan: MountPlan, *, trust_plan: bool = False) -> tuple[MountPlan, PlanAcceptance]:
        """Return a plan with where its paths lead now, and what of it the operator accepted."""
        return await anyio.to_thread.run_sync(partial(self._accepted_now, plan, trust_plan=trust_plan))

    def _accepted_now(self, plan: MountPlan, *, trust_plan: bool) -> tuple[MountPlan, PlanAcceptance]:
        judged = with_places(plan, self._working_dir, self._owner)
        return judged, PlanAcceptance.of(judged, self._grants_file, trust_plan=trust_plan)

    def _refuse_unaccepted(self, start: PlanStart, given: Mapping[str, tuple[OperatorGrant, ...]]) -> None:
        plan = start.plan
        trust = self._accepted_now(plan, trust_plan=start.trust_plan)[1].trust
        if not trust.accepted:
            raise_findings([instruction_findings(plan, trust)], plan.positions)
            asked = [ModuleRequest(entry, "", given.get(entry.path, ()), start.named) for entry in plan.entries()]
            refuse_unaccepted(asked, self._context(trust, plan.positions, None))

    async def check_pins(self, start: PlanStart, lock: Path, pins: Pins) -> None:
        """Ask the operator once where `lock` pins an accepted plan to other content than when it was accepted.

        The question comes before anything is fetched, since a moved pin chooses the code that runs. A plan that was not
        accepted raises no question here: its code is fetched without the user's keys.

        Raises:
            LockMovedError: no person could be asked.
            ConsentRefusedError: the operator's answer is to start nothing.
            PolicyFileError: the record of accepted plans cannot be trusted or understood.
        """
        if start.trust_plan or start.plan.folder != lock.parent:  # a lock file elsewhere is Paddock's own
            return
        plan, acceptance = await self._acceptance(start.plan)
        moved = acceptance.moved(pins)
        if not moved:
            return
        from paddock.authorization.consent import ConsentAnswer, PlanReview  # only for what is asked about

        review = PlanReview(str(plan.origin), plan.digest, (), is_accepted=True, moved=moved)
        match ConsentAnswer.AS_IT_IS if start.consent is None else await start.consent.ask(review):
            case ConsentAnswer.AS_IT_IS:
                raise LockMovedError(review.plan, lock, moved)
            case ConsentAnswer.STOP:
                raise ConsentRefusedError(review.plan)
        try:
            await anyio.to_thread.run_sync(self._grants_file.accept_pins, plan.digest, moved)
        except GrantsNotKeptError as error:
            _log.warning("accepted for this time only: %s", error.paddock_statement())

    async def check_rights(self, start: PlanStart, takes: Mapping[str, str]) -> None:
        """Ask whether sources of a plan that was not accepted may be fetched with the operator's rights.

        `takes` names each and says what it takes, by its place in the plan. Nothing is recorded: the lock file pins
        what is fetched.

        Raises:
            PolicyRefusedError: no person could be asked.
            ConsentRefusedError: the operator's answer is to start nothing.
        """
        from paddock.authorization.consent import ConsentAnswer, PlanReview  # only for what is asked about

        plan = start.plan
        review = PlanReview(plan.title, plan.digest, (), fetches=tuple(dict.fromkeys(takes.values())))
        match ConsentAnswer.AS_IT_IS if start.consent is None else await start.consent.ask(review):
            case ConsentAnswer.AS_IT_IS:
                raise_findings([own_rights_findings(takes)], plan.positions)
            case ConsentAnswer.STOP:
                raise ConsentRefusedError(review.plan)

    async def authorize_call(
        self,
        entry: ModuleEntry,
        resolution: Resolution,
        named: IsolationLevel | None,
    ) -> Authorization:
        """Authorise the one module of a call, whose entry is made of flags.

        Raises:
            PolicyRefusedError, PlanError, SecretError: the call is not allowed, or a path that a flag names does not
                exist.
        """
        asked = ModuleRequest(entry, resolution.source, (), named, resolution.commit, resolution.tree)
        authorization = await self._authorize([asked], [resolution], _BY_FLAGS, None)
        return replace(authorization, totals=judge_totals(None, self.policy, [entry], PolicyFindings()))

    def check_call(self, granted: Permissions) -> None:
        """Refuse a variable or a secret that a flag names and that is not set, before any code is looked for.

        Raises:
            PlanError: one is not there.
        """
        problems = [
            PlanProblem(
                f"permissions.env[{index}]",
                f"environment variable `{name}` is not set",
                f"set `{name}` first: `export {name}=VALUE`; or for the module alone: `--allow-env={name}=VALUE`",
            )
            for index, name in enumerate(granted.env)
            if "=" not in name and name not in self._environ
        ] + [
            PlanProblem(
                f"permissions.secrets[{index}]",
                f"secret `{secret.name}` is not set: there is no {self._secrets.where(secret.name)}",
                how_to_set(secret.name),
            )
            for index, secret in enumerate(granted.secrets)
            if secret.name not in self._secrets
        ]
        if problems:
            raise PlanError(problems)

    async def authorize_plan(
        self,
        start: PlanStart,
        resolutions: Mapping[str, Resolution],
        weaker_level: WeakerLevel,
        pins: Pins = _NO_PINS,
    ) -> Authorization:
        """Authorise the modules of a plan, whose code is at `resolutions`, by the places of their entries.

        The consent is asked about a plan that was not accepted before, if the plan asks for anything or lacks a grant
        that would fit. The plan is then accepted with `pins`, those that chose its code. `weaker_level` names the
        weaker isolation level that is accepted with it.

        Raises:
            ConsentRefusedError: the operator's answer is to start nothing.
            PolicyRefusedError, PlanError, PolicyFileError, SecretError: it may not be started like that.
        """
        given, consent = _given_by_flags(start), start.consent
        plan, acceptance = await self._acceptance(start.plan, trust_plan=start.trust_plan)
        ask = partial(_asked, plan, resolutions, given, start.named)
        asked, today = ask(acceptance), ask(acceptance.of_today())
        more = _granted_since(asked, today)
        again = frozenset[str]()
        if acceptance.accepted is not None:
            again = await anyio.to_thread.run_sync(self._to_ask_about_again, acceptance.accepted, asked)
        if consent is not None and (acceptance.accepted is None or again or more):
            from paddock.authorization.review import review_plan  # only for what is asked about

            context = self._context(acceptance.trust, plan.positions, plan.folder)
            reviewed = [
                replace(one, given=given.get(one.entry.path, ())) if one.entry.path in again else one for one in asked
            ]
            review = await anyio.to_thread.run_sync(review_plan, plan, reviewed, resolutions, context, self._environ)
            modules = (
                replace(one, proposed_lines=one.proposed_lines + more.get(one.place, ())) for one in review.modules
            )
            review = replace(review, modules=tuple(modules))
            needs_trust = (review.needs_trust or start.asks_anyway) and not acceptance.trust.accepted
            if review.has_proposals or needs_trust:
                review = replace(
                    review,
                    weaker_level=await weaker_level(),
                    is_accepted=acceptance.trust.accepted,
                    moved=acceptance.moved_since(pins),
                    kept=_kept(acceptance.accepted, reviewed, again),
                    is_again=bool(again or more),
                )
                answered = await self._ask(consent, review, plan, pins)
                if answered is not None:
                    acceptance, asked, more = answered, ask(answered), {}
        for place, lacks in more.items():
            _log.warning("%s keeps its preset as you accepted it, without %s", place, *lacks)
        if start.trust_plan or given or acceptance != acceptance.of_today():
            await anyio.to_thread.run_sync(self._tell_of_presets, today)
        in_general = instruction_findings(plan, acceptance.trust)
        totals = judge_totals(plan, self.policy, tuple(plan.own_entries()), in_general)
        raise_findings([in_general], plan.positions)
        codes = [resolutions[one.entry.path] for one in asked]
        authorization = await self._authorize(asked, codes, acceptance.trust, plan.positions, plan.folder)
        accepted = acceptance.trust.accepted
        return replace(authorization, accepts_weaker=accepted, digest=plan.digest, plan=start.plan, totals=totals)

    async def check_places(self, authorization: Authorization) -> None:
        """Refuse a plan if a path now leads outside the working directory, elsewhere than when it was judged.

        Raises:
            PlanError: one does, so the module would get something else than was accepted.
        """
        plan = authorization.plan
        if plan is None:
            return
        now = await anyio.to_thread.run_sync(with_places, plan, self._working_dir, self._owner)
        if now.digest != authorization.digest:
            problem = PlanProblem("", "a path in it leads elsewhere than when it was judged", "see where it leads now")
            raise PlanError([problem], origin=None if plan.origin is None else str(plan.origin))

    def _to_ask_about_again(self, accepted: AcceptedPlan, asked: Sequence[ModuleRequest]) -> frozenset[str]:
        """Return the places of an accepted plan's modules whose grants must be proposed again; blocks.

        Their code now comes from elsewhere, or something is there that was missing when the plan was accepted.
        """
        from paddock.authorization.suggestions.needs import ProposalContext  # only for what was asked about

        known = ProposalContext(self._working_dir, self._owner, self._environ, self._secrets)
        sources = {one.entry.path: one.source for one in asked}
        return frozenset(
            grant.place
            for grant in accepted.grants
            if sources.get(grant.place, grant.source) != grant.source or known.has_any(grant.without)
        )

    async def _ask(
        self,
        consent: Consent,
        review: PlanReview,
        plan: MountPlan,
        pins: Pins,
    ) -> PlanAcceptance | None:
        """Ask, and return what the operator accepted, recorded for later; None if they accepted nothing.

        Raises:
            ConsentRefusedError: the operator's answer is to start nothing.
        """
        from paddock.authorization.consent import ConsentAnswer  # only for what is asked about

        match await consent.ask(review):
            case ConsentAnswer.AS_IT_IS:
                return None
            case ConsentAnswer.STOP:
                raise ConsentRefusedError(review.plan)
        known = [pin for pin in pins.values() if pin is not None]
        accepted = await anyio.to_thread.run_sync(
            PlanAcceptance.accepting,
            plan,
            self._grants_file,
            review.grants,
            known,
        )
        if accepted.problem is not None:
            _log.warning("accepted for this time only: %s", accepted.problem)
        return accepted

    def _tell_of_presets(self, asked: Sequence[ModuleRequest]) -> None:
        """Say once to the user how presets changed since a plan was accepted, if one that is asked for did; blocks."""
        accepted = (one.presets for one in self._grants_file.all())
        told = min(accepted, default=permission_request.PRESETS_VERSION)
        with suppress(OSError, ValueError):
            told = int((state_folder(self._environ) / _TOLD).read_text(encoding="ascii"))
        then, now = preset_grants(told), preset_grants()
        changed = [name for name in now if then[name] != now[name]]
        named = {one.entry.permissions.preset for one in asked}
        named |= {given.permissions.preset for one in asked for given in one.given}
        if named.isdisjoint(changed):
            return
        for name in changed:
            for change, before, after in (("by now grants", then, now), ("no longer grants", now, then)):
                if grants := ", ".join(f"{family} `{one}`" for family, one in added_grants(before[name], after[name])):
                    _log.warning("preset `%s` %s %s", name, change, grants)
        if excluding := [one for one in changed if EXCLUDED_SECRETS in {*now[one].read} - {*then[one].read}]:
            names = "`, `".join(excluding)
            said = f"your secret files that git does not have: `{EXCLUDED_SECRETS}` in `read`"
            _log.warning("the presets `%s` by now exclude %s", names, said)
        with suppress(OSError):
            (state_folder(self._environ) / _TOLD).write_text(str(permission_request.PRESETS_VERSION), encoding="ascii")

    def _context(self, trust: Trust, positions: Positions | None, folder: Path | None) -> EvaluationContext:
        return EvaluationContext(self.policy, trust, self._working_dir, self._owner, self._secrets, positions, folder)

    async def _authorize(
        self,
        asked: Sequence[ModuleRequest],
        resolutions: Sequence[Resolution],
        trust: Trust,
        positions: Positions | None,
        folder: Path | None = None,
    ) -> Authorization:
        context = self._context(trust, positions, folder)
        # In a thread: paths are followed and files looked at.
        decisions = await anyio.to_thread.run_sync(evaluate, asked, context)
        wanted = {
            name: decision.entry.path
            for decision in decisions
            for name in secrets_in_use(decision.entry.config, grants_of(decision.entry.permissions))
        }
        kept = SecretValues(await self._secrets.fetch(wanted, positions=positions))
        for name in kept.unmasked:
            _log.warning("the value of secret `%s` is too short to be hidden where it is printed", name)
        return Authorization(tuple(map(AuthorizedModule, decisions, resolutions)), trust, kept)


def _asked(
    plan: MountPlan,
    resolutions: Mapping[str, Resolution],
    given: Mapping[str, tuple[OperatorGrant, ...]],
    named: IsolationLevel | None,
    acceptance: PlanAcceptance,
) -> list[ModuleRequest]:
    """Return each module's request: its entry, and what flags grant, or else what the operator's answer granted."""
    asked = []
    for entry in plan.entries():
        code = resolutions[entry.path]
        granted = given.get(entry.path) or acceptance.given(entry, code.source)
        asked.append(ModuleRequest(acceptance.held(entry), code.source, granted, named, code.commit, code.tree))
    return asked


def _granted_since(held: Sequence[ModuleRequest], today: Sequence[ModuleRequest]) -> dict[str, tuple[str]]:
    """Return what presets grant since they were accepted, a line of text by the place of each module."""
    more: dict[str, tuple[str]] = {}
    for before, after in zip(held, today, strict=True):
        had = {(one.family, one.value) for one in before.grants()}
        if since := [one.text for one in after.grants() if (one.family, one.value) not in had]:
            more[before.entry.path] = (f"{', '.join(since)}, which its preset grants by now",)
    return more


def _kept(
    accepted: AcceptedPlan | None,
    asked: Sequence[ModuleRequest],
    again: Container[str],
) -> tuple[AcceptedGrant, ...]:
    """Return the accepted grants that a question about the modules at `again` leaves as they are."""
    if accepted is None:
        return ()
    found = (accepted.grant_for(one.entry.path, one.source) for one in asked if one.entry.path not in again)
    return tuple(grant for grant in found if grant is not None)


def _given_by_flags(start: PlanStart) -> dict[str, tuple[OperatorGrant, ...]]:
    """Return the presets that flags grant, by the place of the entry.

    Raises:
        PlanError: there is no such module in the plan, or no such preset.
    """
    given: dict[str, tuple[OperatorGrant, ...]] = {}
    problems: list[PlanProblem] = []
    plan = start.plan
    for name, preset in start.grants.items():
        entries = [entry for entry in plan.entries() if name in (entry.instance_id, entry.module)]
        if not entries:
            names = list(dict.fromkeys(entry.instance_id or entry.module for entry in plan.entries()))
            hint = meant(name, names, f"its modules: {', '.join(names)}")
            problems.append(PlanProblem("--grant", f"the plan has no module `{name}`", hint))
        try:
            permissions = Permissions.parse(preset)
        except NotAcceptedError as error:
            problems.append(PlanProblem("--grant", error.problem, error.accepted))
            continue
        rule = Rule(Location("the command line"), f"--grant {name}={preset}")
        for entry in entries:
            # What is granted to one instance precedes what is granted to all instances of the module.
            if entry.path not in given or name == entry.instance_id:
                given[entry.path] = (OperatorGrant(permissions, rule),)
    if problems:
        raise PlanError(problems)
    return given
