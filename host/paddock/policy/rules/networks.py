"""Networks that a policy closes: no module connects to them, by a name or by an address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paddock.plan.net_rule import NetRule
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import Network
from paddock.policy.findings import PolicyFindings
from paddock.policy.grant_request import RequestedGrant
from paddock.policy.rule import Rule, written_list


@dataclass(frozen=True, slots=True)
class ClosedNetwork:
    """A network, and the rule that closes it."""

    network: Network
    rule: Rule


def judge_networks(
    grants: Iterable[RequestedGrant], policy: Policy, findings: PolicyFindings
) -> tuple[ClosedNetwork, ...]:
    """Return what is closed to a module, and note each grant that is about nothing else.

    Where a name leads is not known yet: that is judged when the module connects.
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
