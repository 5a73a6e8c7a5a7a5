"""Make the review of a plan for its operator: its grants, which of them need an accepted plan, and fitting proposals.

The evaluator that would refuse a grant also decides which grants need an accepted plan. A grant is proposed only as far
as the policy and the machine permit. Code is read as data; nothing is started, nothing is granted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.authorization.consent import ModuleReview, PlanReview
from paddock.authorization.grant_lines import brought_by_bundles, grant_lines, kept_line
from paddock.authorization.open_web import GrantedModule, open_web_warnings
from paddock.authorization.suggestions.advice import advice_of
from paddock.authorization.suggestions.needs import KEEPS_HOME, Needs, ProposalContext
from paddock.authorization.suggestions.proposal import has_no_say, propose
from paddock.errors import PlanError, PolicyRefusedError, Refusal
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions, by_preset, united
from paddock.plan.problems import path_text
from paddock.plan.source_map import Location
from paddock.policy.evaluate import EvaluationContext, evaluate
from paddock.policy.files.owned_file import user_config_folder
from paddock.policy.grant_request import ModuleRequest, OperatorGrant, union_of
from paddock.policy.grants import Grants, brought_line
from paddock.policy.outer_repository import outer_repositories
from paddock.policy.rule import BUILT_IN, Rule
from paddock.policy.trust import Trust
from paddock.state_folder import state_path
from paddock_sources import Resolution
from paddock_sources.cache.source_cache import place_of_user

_UNASKED: Final = Trust(False, Rule(BUILT_IN, "the operator has not answered yet"))
_PROPOSED: Final = Rule(Location("the review"), "what fits the module")


def review_plan(
    plan: MountPlan,
    asked: Sequence[ModuleRequest],
    resolutions: Mapping[str, Resolution],
    context: EvaluationContext,
    environ: Mapping[str, str],
) -> PlanReview:
    """Return the review of a plan whose modules ask for `asked`; blocks: it looks at files.

    `resolutions` give the place of their code, by the places of their entries. A module to which the operator granted
    something already gets no proposal.
    """
    known = ProposalContext(context.working_dir, context.owner, environ, context.secrets)
    folders = (user_config_folder(environ), state_path(environ), place_of_user(environ))
    fixed = [*(Path(os.path.realpath(one)) for one in folders), *(code.root for code in resolutions.values())]
    modules = tuple(_module(one, resolutions[one.entry.path], context, known, fixed) for one in asked)
    warnings = open_web_warnings(map(_granted, asked, modules))
    told = plan.instruction
    is_refused = bool(told.outside) or _is_refused(asked, context)
    review = PlanReview(plan.title, plan.digest, modules, warnings=warnings, is_refused_as_it_is=is_refused)
    mirrors = context.policy.mirror_notes(one.source for one in asked)
    notes = (*brought_by_bundles(plan), *mirrors)
    return replace(review, told=told.files, told_outside=told.outside, notes=notes)


def _is_refused(asked: Sequence[ModuleRequest], context: EvaluationContext) -> bool:
    """Whether these requests would be refused with what is accepted now."""
    try:
        evaluate(asked, context)
    except (PolicyRefusedError, PlanError):
        return True
    return False


def _granted(request: ModuleRequest, review: ModuleReview) -> GrantedModule:
    """Return what a module gets once everything in the review is accepted."""
    given = request.given
    if review.proposed is not None:
        given = (*given, OperatorGrant(review.proposed, _PROPOSED, stays_inside=True))
    return GrantedModule(review.name, review.kind, union_of(request.entry, given))


def _module(
    request: ModuleRequest,
    resolution: Resolution,
    context: EvaluationContext,
    known: ProposalContext,
    fixed: Sequence[Path],
) -> ModuleReview:
    entry = request.entry
    granted, needs_trust = _stated(request, context)
    lines = grant_lines(entry, request.given, context.working_dir, context.owner)
    needs = Needs()
    if has_no_say(entry) and not request.given:
        needs = _given(request, propose(entry, advice_of(resolution), known), context)
    granted_in_all = union_of(entry, (*request.given, OperatorGrant(needs.permissions, _PROPOSED)))
    preset = entry.permissions.preset
    kept, opening = kept_line(granted_in_all, preset, context.working_dir, context.owner, fixed)
    opens = None
    if opening and not request.given:
        presets = (preset, needs.permissions.preset)
        opens = by_preset(united((granted_in_all, Permissions(write=opening))), presets)
    outer = outer_repositories(granted_in_all, context.working_dir, context.owner)
    of_git = tuple(f"reads {one.place}, the repository of {one.folder}" for one in outer if not one.problem)
    return ModuleReview(
        name=_name(entry),
        kind=entry.kind,
        source=request.source,
        granted=(*granted, *filter(None, [brought_line(resolution)])),
        needs_trust=needs_trust if needs.lines else (*needs_trust, *of_git),
        given=(
            *(line for grant, line in lines if not grant.path),
            *([KEEPS_HOME] if any(one.keeps for one in request.given) else []),
        ),
        proposed=needs.permissions if needs.lines else None,
        proposed_lines=(*needs.lines, *of_git) if needs.lines else (),
        lacks=(*needs.lacks, *filter(None, [kept])),
        missing=needs.missing,
        keeps=needs.keeps,
        place=entry.path,
        opens=opens,
    )


def _name(entry: ModuleEntry) -> str:
    """Return the name people use for a module: for an agent's module, with the agent."""
    name = entry.instance_id or entry.module
    return name if entry.agent is None else f"{name} of agent {entry.agent}"


def _stated(request: ModuleRequest, context: EvaluationContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return an entry's grants, a line each, and which of them need an accepted plan."""
    entry = request.entry
    refused = [one for one in _refusals(request, replace(context, trust=_UNASKED)) if one.rule == _UNASKED_TEXT]
    granted: list[str] = []
    needs_trust: list[str] = []
    for grant, line in grant_lines(entry, (), context.working_dir, context.owner):
        granted.append(line)
        about = [one for one in refused if one.path == grant.path and one.message.startswith(grant.text)]
        if about:
            needs_trust.append(line)
            refused = [one for one in refused if one not in about]
    if entry.isolation is not None:
        line = f"runs at isolation level {entry.isolation}"
        granted.append(line)
        if any(one.path == path_text(entry.path, "isolation") for one in refused):
            needs_trust.append(line)
    if entry.state == "keep":
        granted.append(KEEPS_HOME)
        needs_trust.append(KEEPS_HOME)
    code = next((one for one in refused if one.path == path_text(entry.path, "source")), None)
    if code is not None:
        line = f"its code, which lies neither beside the plan nor in the working directory: {request.source}"
        granted.append(line)
        needs_trust.append(line)
    return tuple(dict.fromkeys(granted)), tuple(dict.fromkeys(needs_trust))


_UNASKED_TEXT: Final = _UNASKED.rule.text if _UNASKED.rule is not None else ""


def _given(request: ModuleRequest, needs: Needs, context: EvaluationContext) -> Needs:
    """Return a proposal if it can be granted; otherwise list its obstacles among what the module lacks."""
    if not needs.lines:
        return needs
    accepted = replace(context, trust=Trust(True))
    with_it = replace(request, given=(OperatorGrant(needs.permissions, _PROPOSED, stays_inside=True),))
    before = {one.message for one in _refusals(request, accepted)}
    against = [one for one in _refusals(with_it, accepted) if one.message not in before]
    stands = [f"{one.rule_file}{f':{one.rule_line}' if one.rule_line is not None else ''}" for one in against]
    problems = [f"not given: {place} is against it" for place in dict.fromkeys(stands)]
    entry = request.entry.model_copy(update={"permissions": needs.permissions})
    try:
        Grants.of(entry, Path(context.working_dir), context.owner, lambda path, is_written: None)
    except PlanError as error:  # paths and programs that cannot be granted as written on this machine
        problems += [f"not given: {problem.message}" for problem in error.problems]
    return Needs(Permissions(), (), (*needs.lacks, *problems)) if problems else needs


def _refusals(request: ModuleRequest, context: EvaluationContext) -> tuple[Refusal, ...]:
    try:
        evaluate([request], context)
    except PolicyRefusedError as error:
        return error.refusals
    except PlanError:  # mistakes are reported when the plan is started, after any answer
        return ()
    return ()
