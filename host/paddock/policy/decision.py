"""The decision about one module, and the rules that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.plan.model import ModuleEntry
from paddock.policy.limits import ResourceLimits
from paddock.policy.paths import PathRules
from paddock.policy.rule import ConsultedRule, Floor, Rule

if TYPE_CHECKING:
    from paddock.policy.files.policy_file import Network


@dataclass(frozen=True, slots=True)
class ClosedNetwork:
    """A network to which the module may not connect, and the rule that closes it."""

    network: Network
    rule: Rule


@dataclass(frozen=True, slots=True)
class Decision:
    """What a module may do and use: `entry` has the permissions and limits in effect, `limits` all of its limits.

    `floor` are the levels that it may run at without further permission; `consulted` are all the rules that were
    examined. The module may not connect to any of `closed_networks`. `loopback_is_written` is whether a person wrote
    `net: [self]` itself, rather than a preset.
    """

    entry: ModuleEntry
    limits: ResourceLimits
    floor: Floor
    consulted: tuple[ConsultedRule, ...]
    paths: PathRules
    closed_networks: tuple[ClosedNetwork, ...] = ()
    loopback_is_written: bool = False
