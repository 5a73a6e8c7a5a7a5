"""Compare a module's grants with the caps of the rules about its source, family by family.

A cap covers a grant only where that is certain: everything the grant stands for is something the cap stands for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from paddock.plan.families import covers, is_program_path
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, SecretGrant
from paddock.plan.problems import NotAcceptedError
from paddock.policy.files.policy_file import ModuleRule, PolicyFile
from paddock.policy.grant_caps import AS_GRANTED, GrantCaps, SecretCap
from paddock.policy.grant_request import RequestedGrant
from paddock.policy.owner import Owner
from paddock.policy.path_walk import PathWalk
from paddock.policy.paths import GrantPathRule
from paddock.policy.rule import PolicyFindings
from paddock_sandbox.profile import ANY_PROGRAM

_PATHS: Final = ("read", "write", "run")  # the grants of the last family that are paths


def judge_caps(
    file: PolicyFile,
    rule: ModuleRule,
    asked: Sequence[RequestedGrant],
    permissions: Permissions,
    *,
    working_dir: Path,
    owner: Owner,
    findings: PolicyFindings,
) -> tuple[GrantPathRule, ...]:
    """Note each grant that a rule does not permit, and return the rules about paths.

    `permissions` are all grants of the module; they show where an injected secret is used.
    """
    caps = rule.caps
    if caps is None:
        return ()
    said = f"is more than modules of `{rule.match.text}` may be granted"
    hint = f"ask for less, or have the rule changed: {file.name}"
    for grant in asked:
        if not (grant.is_path or grant.excludes) and grant.family in caps.capped:
            if not _covers_grant(caps, grant, permissions):
                findings.refuse(grant.path, f"{grant.text} {said}", hint, file.rule_of_cap(rule, grant.family))
        elif grant.passes_on and "secrets" in caps.capped:
            # Any value of the operator's environment may be a secret.
            value = SecretGrant.model_construct(name=str(grant.value), inject=None)
            if not covers_secret(caps.secrets, value, permissions):
                findings.refuse(
                    grant.path,
                    f"{grant.text} passes on what may be a secret, and {said}",
                    f"give the variable a value, `NAME=VALUE`, or have it named under `env` in the rule: {file.name}",
                    file.rule_of_cap(rule, "secrets"),
                )
    for family in sorted(caps.capped):  # grants of paths are noted after they were judged
        written = file.rule_of_cap(rule, family)
        if family not in _PATHS:
            findings.consult(written, "refuses what is asked for" if findings.is_against(written) else "is kept")
    return tuple(_path_rules(file, rule, caps, said, hint, working_dir, owner))


def _covers_grant(caps: GrantCaps, grant: RequestedGrant, permissions: Permissions) -> bool:
    value = grant.value
    if isinstance(value, SecretGrant):
        return covers_secret(caps.secrets, value, permissions)
    return covers(grant.family, getattr(caps, grant.family), value)


def _path_rules(
    file: PolicyFile, rule: ModuleRule, caps: GrantCaps, said: str, hint: str, working_dir: Path, owner: Owner
) -> Iterator[GrantPathRule]:
    """Yield the rules of caps about paths. Writing includes reading, so a cap on either bounds the other."""
    reads, writes = roots_of(caps.read, working_dir, owner), roots_of(caps.write, working_dir, owner)
    if "read" in caps.capped:
        yield GrantPathRule(frozenset({"read"}), (*reads, *writes), file.rule_of_cap(rule, "read"), said, hint)
    if "write" in caps.capped:
        yield GrantPathRule(frozenset({"write"}), writes, file.rule_of_cap(rule, "write"), said, hint)
    elif "read" in caps.capped:
        includes = f"includes reading it, and {said}"
        yield GrantPathRule(frozenset({"write"}), reads, file.rule_of_cap(rule, "read"), includes, hint)
    if "run" in caps.capped:
        programs = roots_of(filter(is_program_path, caps.run), working_dir, owner)
        if ANY_PROGRAM in caps.run:  # everything that it can see
            programs += (*reads, *writes) if {"read", "write"} & caps.capped else (Path("/"),)
        yield GrantPathRule(frozenset({"run"}), programs, file.rule_of_cap(rule, "run"), said, hint)
    elif "read" in caps.capped:
        includes = f"includes reading it, and {said}"
        yield GrantPathRule(frozenset({"run"}), (*reads, *writes), file.rule_of_cap(rule, "read"), includes, hint)


def covers_secret(caps: Iterable[SecretCap], granted: SecretGrant, permissions: Permissions) -> bool:
    """Whether caps cover a secret as it is granted: a cap on the value covers the injected secret, not the reverse."""
    return any(
        covers("secrets", [cap.name], granted.name) and _is_used_within(cap, granted, permissions) for cap in caps
    )


def _is_used_within(cap: SecretCap, granted: SecretGrant, permissions: Permissions) -> bool:
    if cap.inject is None:
        return True
    if granted.inject is None:
        return False
    if cap.inject == AS_GRANTED:
        return True
    try:
        return NetRule.parse(cap.inject).covers(permissions.place_of_injection(granted))
    except NotAcceptedError:
        return False


def roots_of(caps: Iterable[str], working_dir: Path, owner: Owner) -> tuple[Path, ...]:
    """Return the folders and files that caps on paths stand for, without links.

    Inside the working directory a cap means the place itself, and not the target of a link there: the project's author
    chose the links.
    """
    return tuple(_followed(owner.expanded(cap, working_dir), working_dir) for cap in caps)


def _followed(path: Path, working_dir: Path) -> Path:
    walk = PathWalk(path, None)
    for name in walk:
        link = walk.path / name
        if walk.may_follow and not walk.path.is_relative_to(working_dir) and link.is_symlink():
            walk.go_to(os.readlink(link))
        else:
            walk.enter(name, None)
    return walk.path
