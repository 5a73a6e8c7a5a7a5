"""Decide what modules may do and use: all that was granted, within the policy, or an error with every obstacle.

Sessions, single calls and questions about either use this one evaluator. A grant beyond the policy is refused and never
dropped silently: the permissions in effect are those that were asked for, or there are none. Nothing is started or
changed, and a module's own statements are not read.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock.errors import PlanError, PolicyRefusedError, placed
from paddock.plan.host_name import LOOPBACK, split_port
from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import SELF, NetRule
from paddock.plan.permissions import OfPreset, SecretGrant, grants_of
from paddock.plan.problems import NotAcceptedError, path_text
from paddock.plan.secret_references import how_to_set, reference_problems, secrets_in_use, variable_references
from paddock.plan.source_map import Positions
from paddock.policy.decision import ClosedNetwork, Decision
from paddock.policy.files.policy import JudgedMirror, Policy, rules_about
from paddock.policy.grant_request import ModuleRequest, RequestedGrant, contradictions, families_written
from paddock.policy.limits import Cap, judge_limits, share_of_tasks, with_lowered
from paddock.policy.located_program import paths_of
from paddock.policy.owner import Owner
from paddock.policy.paths import GrantPathRule, PathRules
from paddock.policy.rule import Floor, PolicyFindings, Rule, written_list
from paddock.policy.source_name import DEFAULT_PORTS, SourceName, without_credentials
from paddock.policy.trust import Trust, judge_trust
from paddock_sources import SourceUriError, parse_source

if TYPE_CHECKING:
    from paddock.policy.files.policy_file import ModuleRule, Network, PolicyFile

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """The facts that decisions depend on, besides the request.

    `working_dir` is absolute and without links, `secrets` are those that `${NAME}` may refer to, `positions` the lines
    of the plan's file, `folder` is that of the plan.
    """

    policy: Policy
    trust: Trust
    working_dir: Path
    owner: Owner
    secrets: Container[str]
    positions: Positions | None = None
    folder: Path | None = None


def evaluate(asked: Sequence[ModuleRequest], context: EvaluationContext) -> tuple[Decision, ...]:
    """Decide for all modules of a plan, or for the one of a call, in their order.

    Raises:
        PolicyRefusedError: a rule refuses something; the error names every problem, mistakes of the plan included.
        PlanError: the plan has mistakes; the error names all of them.
    """
    entries = [one.effective() for one in asked]
    tasks = share_of_tasks(entries)
    judged = [_judged(one, context, tasks) for one in asked]
    if context.trust.accepted and any(grants_of(entry.permissions).run for entry in entries):
        from paddock.policy.outer_repository import with_repositories  # only where git may run

        for number, one in enumerate(with_repositories(asked, context.working_dir, context.owner)):
            # No rule is broken by what nobody asked for: the module goes without it.
            if one != asked[number] and not (found := _judged(one, context, tasks))[0].refusals:
                judged[number] = found
    raise_findings([findings for findings, _ in judged], context.positions)
    return tuple(decision for _, decision in judged)


def refuse_unaccepted(asked: Sequence[ModuleRequest], context: EvaluationContext) -> None:
    """Refuse what needs a plan that the operator accepted, as far as that takes no look at the modules' code.

    Raises:
        PolicyRefusedError: something does; the error names every problem that was found along the way.
    """
    tasks = share_of_tasks([one.effective() for one in asked])
    found = [_judged(one, context, tasks)[0] for one in asked]
    if any(findings.refusals for findings in found):
        raise_findings(found, context.positions)


def refuse_sources(sources: Mapping[str, str], policy: Policy, positions: Positions | None = None) -> None:
    """Refuse forbidden sources before anything is fetched; `sources` are by place in the plan.

    Raises:
        PolicyRefusedError: a rule refuses one of them.
    """
    findings = PolicyFindings()
    for path, source in sources.items():
        judge_source(path, source, policy, findings)
    raise_findings([findings], positions)


def lacks_secrets(entry: ModuleEntry, secrets: Container[str]) -> bool:
    """Whether a secret that the entry is granted, and that its start needs, is not set."""
    return any(name not in secrets for name in secrets_in_use(entry.config, grants_of(entry.permissions)))


def refuse_secrets(entries: Iterable[ModuleEntry], secrets: Container[str], positions: Positions) -> None:
    """Refuse entries whose references and secrets cannot be had; this takes no look at their code.

    Raises:
        PlanError: the problems of all of them.
    """
    findings = PolicyFindings()
    for entry in entries:
        _judge_secrets(entry, ModuleRequest(entry, "").grants(), secrets, findings)
    raise_findings([findings], positions)


def raise_findings(found: Iterable[PolicyFindings], positions: Positions | None) -> None:
    """Raise one error for all findings, if there are any.

    Raises:
        PolicyRefusedError: a rule refuses something.
        PlanError: the plan has mistakes.
    """
    found = tuple(found)
    file = positions.file if positions is not None and positions.has_lines else None

    def spot_of(path: str) -> tuple[str, int | None]:
        return positions.spot_of(path) if positions is not None and path else ("", None)

    refusals = [placed(one, *spot_of(one.path)) for findings in found for one in findings.refusals]
    of_grants = [one for findings in found for one in findings.grants]
    others = [one for findings in found for one in findings.problems]
    problems = [placed(one, *spot_of(one.at or one.path)) for one in (*others, *of_grants)]
    if refusals:
        raise PolicyRefusedError(refusals, problems=problems, origin=file)
    if problems:
        raise PlanError(problems, code="PlanError" if others else "GrantError", origin=file)


def _judged(request: ModuleRequest, context: EvaluationContext, tasks: Cap) -> tuple[PolicyFindings, Decision]:
    findings = PolicyFindings()
    entry = request.effective()
    grants = tuple(request.grants())
    for rule, families in families_written(request.entry, context.positions):
        findings.consult(rule, f"asks for {families}")
    for given in request.given:
        findings.consult(given.rule, "gives it")
    held: list[tuple[PolicyFile, ModuleRule]] = []
    if context.policy.files:  # otherwise no rule about sources exists
        held = _rules_held(request, context.policy, findings)
        path = path_text(request.entry.path, "source") if request.entry.source is not None else request.entry.path
        judge_source(path, request.source, context.policy, findings, commit=request.commit, tree=request.tree)
    floor = _floor(request, context.policy, held, findings)
    working_dir, home = context.working_dir, context.owner.home
    path_rules = list(judge_trust(request, context.trust, working_dir, home, floor, findings, context.folder))
    if held:
        from paddock.policy.caps import judge_caps  # only where there is a policy

        for file, module in held:
            path_rules += judge_caps(
                file,
                module,
                grants,
                grants_of(entry.permissions),
                working_dir=context.working_dir,
                owner=context.owner,
                findings=findings,
            )
    closed = _judge_networks(grants, context.policy, findings)
    _judge_paths(request.entry, grants, path_rules, context, findings)
    findings.problems.extend(contradictions(request.entry, grants))
    _judge_secrets(entry, grants, context.secrets, findings)
    limits = judge_limits(entry, context.policy, held, findings, tasks)
    rules = PathRules(request.entry, tuple(path_rules), grants)
    stated = (request.entry.permissions, *(one.permissions for one in request.given))
    written = any(SELF in one.net and not isinstance(one, OfPreset) for one in stated)
    decided = with_lowered(entry, limits)
    return findings, Decision(decided, limits, floor, tuple(findings.consulted), rules, closed, written)


def _rules_held(
    request: ModuleRequest, policy: Policy, findings: PolicyFindings
) -> list[tuple[PolicyFile, ModuleRule]]:
    try:
        name = _name_of(request.source, request.commit, request.tree)
        mirror = JudgedMirror.of(request.source, request.commit, policy.environ)
    except (NotAcceptedError, SourceUriError):
        return []  # refused where rules depend on it
    held = []
    for file in policy.files:
        for one in _names_in(file, name, mirror):
            rules, consulted = rules_about(one, file)
            held += [(file, rule) for rule in rules if (file, rule) not in held]
            findings.consulted.extend(consulted)
    return held


def _floor(
    request: ModuleRequest, policy: Policy, held: Sequence[tuple[PolicyFile, ModuleRule]], findings: PolicyFindings
) -> Floor:
    """Return the levels that need no further permission, and note a requested level below a fixed minimum."""
    floors = []
    for file in policy.files:
        if file.minimum_isolation is not None:
            rule = file.rule("minimum_isolation", file.minimum_isolation)
            floors.append(Floor.at(file.minimum_isolation, rule))
    for file, module in held:
        if module.level is not None:
            floors.append(Floor.at(module.level, file.rule_of_module(module, "level", module.level)))
    floor = Floor.strictest(floors)
    for one in floors:
        findings.consult(one.rule, "is the minimum" if one is floor else "is met by a stricter one")
    if not floors:
        findings.consult(floor.rule, "is the minimum")
    wanted = request.entry.isolation or request.named
    path = path_text(request.entry.path, "isolation") if request.entry.isolation is not None else ""
    if floor.is_fixed and wanted is not None and wanted not in floor.levels:
        findings.refusals.append(floor.refusal(wanted, path))
    elif wanted == "none":
        for _, module in held:
            if module.caps is not None:
                said = "isolation level `none` enforces nothing, and a rule bounds what the module may be granted"
                findings.refuse(path, said, "run it sandboxed, or have the rule removed", module.rule)
    return floor


def _judge_paths(
    entry: ModuleEntry,
    grants: Sequence[RequestedGrant],
    rules: Sequence[GrantPathRule],
    context: EvaluationContext,
    findings: PolicyFindings,
) -> None:
    for grant in grants:
        concerned = [rule for rule in rules if rule.concerns(grant)]
        if not concerned:
            continue
        try:
            paths = paths_of(grant.family, str(grant.value), context.working_dir, context.owner)
        except NotAcceptedError as error:
            findings.grant_problem(grant.path or path_text(entry.path, "permissions"), error)
            continue
        for rule in concerned:
            refusals = (rule.refusal(grant, path) for path in paths)
            findings.refusals.extend(refusal for refusal in refusals if refusal is not None)
    for written in dict.fromkeys(rule.rule for rule in rules):
        if all(one.rule != written for one in findings.consulted):
            findings.consult(written, "refuses what is asked for" if findings.is_against(written) else "is kept")


def _judge_secrets(
    entry: ModuleEntry, grants: Sequence[RequestedGrant], secrets: Container[str], findings: PolicyFindings
) -> None:
    """Note references that cannot be resolved, and injected secrets without a value or without a place of use."""
    permissions = grants_of(entry.permissions)
    effective = entry.model_copy(update={"permissions": permissions})
    findings.problems.extend(effective.config_problems(secrets))
    of_variables = variable_references(permissions, path_text(entry.path, "permissions"))
    findings.problems.extend(reference_problems(of_variables, permissions, secrets))
    for grant in grants:
        secret = grant.value
        if not isinstance(secret, SecretGrant) or secret.inject is None:
            continue
        path = grant.path or path_text(entry.path, "permissions")
        try:
            permissions.place_of_injection(secret)
        except NotAcceptedError as error:
            findings.problem(path, error)
        if secret.name not in secrets:
            findings.problem(path, NotAcceptedError(f"secret `{secret.name}` has no value", how_to_set(secret.name)))


def _judge_networks(
    grants: Iterable[RequestedGrant], policy: Policy, findings: PolicyFindings
) -> tuple[ClosedNetwork, ...]:
    """Return the networks closed to a module, and note each grant that covers only closed addresses.

    The address of a name is not known yet: it is judged when the module connects.
    """
    closed: list[ClosedNetwork] = []
    for file in policy.files:
        if not file.refused_networks:
            continue
        rule = file.rule("refused_networks", written_list(file.refused_networks))
        closed += [ClosedNetwork(network, rule) for network in file.refused_networks]
        for grant in grants:
            if grant.family == "net" and _is_within(str(grant.value), file.refused_networks):
                said = f"{grant.text} is in a network that no module may connect to"
                findings.refuse(grant.path, said, f"ask for another, or have the rule changed: {file.name}", rule)
        findings.consult(rule, "refuses what is asked for" if findings.is_against(rule) else "is kept")
    return tuple(closed)


def _is_within(written: str, networks: Iterable[Network]) -> bool:
    rule = NetRule.parse(written)
    return any(NetRule(network, rule.ports, "").covers(rule) for network in networks)


def judge_source(
    path: str, source: str, policy: Policy, findings: PolicyFindings, *, commit: str = "", tree: str = ""
) -> None:
    """Note the objections to a source at `path` in the plan; `commit` and `tree` are those of its code, if known."""
    try:
        name = _name_of(source, commit, tree)
        mirror = JudgedMirror.of(source, commit, policy.environ) if policy.files else None
    except (NotAcceptedError, SourceUriError) as error:
        hint = error.accepted if isinstance(error, NotAcceptedError) else ""
        for rule in _dependent(policy):
            findings.refuse(path, f"{error.problem}, and rules depend on what it is", hint, rule)
        return
    for file in policy.files:
        names = tuple(_names_in(file, name, mirror))
        for one in names:
            _judge_host(path, one, file, findings, "" if mirror is None or one is name else mirror.address)
        _judge_pin(path, source, file, findings, commit)
        for one in names:
            for denying in (rule for rule in rules_about(one, file)[0] if rule.deny is not None):
                rule = file.rule_of_module(denying, "deny", f'"{denying.deny}"')
                hint = f"use another, or have the rule changed: {file.name}"
                findings.refuse(path, f"`{one.text}` is denied: {denying.deny}", hint, rule)


def _names_in(file: PolicyFile, name: SourceName, mirror: JudgedMirror | None) -> Iterator[SourceName]:
    """Yield what the rules of a file judge: a source, and also its mirror unless the file names that."""
    yield name
    if mirror is not None and not mirror.is_named_in(file):
        yield mirror.name


def _name_of(source: str, commit: str, tree: str) -> SourceName:
    """Return the name of a source with what is known of the version of its code; raises as `SourceName.of` does."""
    name = SourceName.of(source)
    ref = "" if source.startswith("/") else parse_source(source).requested[0]
    return replace(name, pins=frozenset({f"commit:{ref}", f"commit:{commit}", tree}))


def _judge_host(
    path: str,
    name: SourceName,
    file: PolicyFile,
    findings: PolicyFindings,
    mirror: str,
) -> None:
    if file.git_hosts is None:
        return
    rule = file.rule("git_hosts", written_list(file.git_hosts))
    is_local = name.scheme == "file"
    if name.family != "git" or (is_local and not (file.bind_local_git or mirror)):
        findings.consult(rule, "is not about this source, which no host serves")
        return
    if is_local:
        name = replace(name, host=str(LOOPBACK))
    port = name.port or DEFAULT_PORTS.get(name.scheme)
    if any(_is_host(listed, name, port) for listed in file.git_hosts):
        findings.consult(rule, f"lists `{name.host}`")
        return
    shown = name.host if name.port is None else f"{name.host}:{name.port}"
    findings.consult(rule, f"does not list `{shown}`")
    known = ", ".join(f"`{host}`" for host in file.git_hosts) or "none"
    hint = f"use a copy on one of these, or have the host added: {file.name}"
    if mirror:
        hint = f'leave the mirror out of your sources.toml, or have it named: mirrors = ["{mirror}"] in {file.name}'
    findings.refuse(path, f"`{name.text}` is on `{shown}`, and repositories may come from: {known}", hint, rule)


def _is_host(listed: str, name: SourceName, port: int | None) -> bool:
    host, listed_port = split_port(listed)
    if port != (listed_port or DEFAULT_PORTS.get(name.scheme)):
        return False
    # With its dot: `*.example.org` is neither `example.org` nor `badexample.org`.
    return name.host.endswith(host[1:]) if host.startswith("*.") else name.host == host


def _judge_pin(
    path: str,
    source: str,
    file: PolicyFile,
    findings: PolicyFindings,
    commit: str,
) -> None:
    if not file.require_pinned:
        return
    rule = file.rule("require_pinned", "true")
    loose = parse_source(source).looseness(commit) if not source.startswith("/") else None
    if loose is None:
        findings.consult(rule, "nothing to pin, or pinned")
        return
    said, hint = loose
    findings.consult(rule, "not pinned")
    findings.refuse(path, f"`{without_credentials(source)}` {said}", hint, rule)


def _dependent(policy: Policy) -> Iterator[Rule]:
    """Yield, for each file, a rule that depends on the source."""
    for file in policy.files:
        if file.git_hosts is not None:
            yield file.rule("git_hosts", written_list(file.git_hosts))
        elif file.modules:
            yield file.modules[0].rule
        elif file.require_pinned:
            yield file.rule("require_pinned", "true")
