"""The limits that a module runs under: its own, and no more than any rule lets it have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paddock.plan.limits import limit_text
from paddock.plan.model import ModuleEntry
from paddock.plan.problems import path_text
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import ModuleRule, PolicyFile
from paddock.policy.findings import PolicyFindings
from paddock.policy.limits import ResourceLimits
from paddock.policy.rule import Rule


@dataclass(frozen=True, slots=True)
class _Cap:
    """The most that a rule lets a limit be; `may_fail`: its file lets it go unenforced."""

    name: str
    value: float
    rule: Rule
    may_fail: bool


def judge_limits(
    entry: ModuleEntry, policy: Policy, held: Sequence[tuple[PolicyFile, ModuleRule]], findings: PolicyFindings
) -> ResourceLimits:
    """Return the limits of an entry, and note those that it asks more of than it may have.

    A default above a cap is lowered to it.
    """
    defaults = ResourceLimits.of(entry)
    excused = frozenset[str]().union(*(file.allow_unenforced for file in policy.files))
    caps = [*_caps_of_files(policy), *_caps_of_rules(held)]
    lowered: dict[str, Any] = {}
    demanded: dict[str, Rule] = {}
    for cap in sorted(caps, key=lambda one: one.value):
        if not cap.may_fail:
            demanded.setdefault(cap.name, cap.rule)
        value = getattr(defaults, cap.name)
        shown = limit_text(cap.name, value)
        if value is not None and value <= cap.value:
            findings.consult(cap.rule, f"{shown} is within it")
        elif cap.name not in defaults.written:
            lowered.setdefault(cap.name, type(value)(cap.value) if value is not None else int(cap.value))
            findings.consult(cap.rule, f"lowers the default, {shown}")
        else:
            findings.consult(cap.rule, f"refuses {shown}")
            findings.refuse(
                path_text(entry.path, "limits", cap.name),
                f"{shown} is more than {limit_text(cap.name, cap.value)}, which is the most there is",
                f"ask for less, or have the rule changed: {cap.rule.location.file}",
                cap.rule,
            )
    written = defaults.written - excused
    return replace(defaults, **lowered, written=written, capped=tuple(demanded.items()))


def _caps_of_files(policy: Policy) -> Iterator[_Cap]:
    for file in policy.files:
        for name, value in file.max_limits:
            if value is not None:
                rule = file.rule(f"max_limits.{name}", limit_text(name, value))
                yield _Cap(name, value, rule, name in file.allow_unenforced)


def _caps_of_rules(held: Sequence[tuple[PolicyFile, ModuleRule]]) -> Iterator[_Cap]:
    for file, module in held:
        for name, value in module.limits:
            if value is not None:
                rule = file.rule_of_module(module, f"limits.{name}", limit_text(name, value))
                yield _Cap(name, value, rule, name in file.allow_unenforced)


def with_lowered(entry: ModuleEntry, limits: ResourceLimits) -> ModuleEntry:
    """Return an entry that asks for the limits that were lowered, so that whoever reads it gets no more."""
    defaults = ResourceLimits.of(entry)
    bounded = {
        name: getattr(limits, name) for name, _ in entry.limits if getattr(limits, name) != getattr(defaults, name)
    }
    return entry.model_copy(update={"limits": entry.limits.model_copy(update=bounded)}) if bounded else entry
