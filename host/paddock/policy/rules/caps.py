"""What the rules about a module's source let it be granted, and what they do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from paddock.plan.permissions import Permissions, SecretGrant, is_program_path
from paddock.policy.files.policy_file import ModuleRule, PolicyFile
from paddock.policy.findings import PolicyFindings
from paddock.policy.grant_caps import GrantCaps
from paddock.policy.grant_request import RequestedGrant
from paddock.policy.owner import Owner
from paddock.policy.rules.paths import GrantPathRule
from paddock.policy.subsumes import covers_call, covers_env, covers_net, covers_secret, covers_text, roots_of
from paddock_sandbox.profile import ANY_PROGRAM

_ROOT: Final = Path("/")
_PATHS: Final = ("read", "write", "run")  # of the last, those grants that are paths


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
    """Note each grant that a rule does not let be granted, and return what it says of paths.

    `permissions` are all that would be granted, which says where an injected secret is used.
    """
    caps = rule.caps
    if caps is None:
        return ()
    said = f"is more than modules of `{rule.match.text}` may be granted"
    hint = f"ask for less, or have the rule changed: {file.name}"
    for grant in asked:
        if not grant.is_path and grant.family in caps.capped:
            if not _covers(caps, grant, permissions):
                findings.refuse(grant.path, f"{grant.text} {said}", hint, file.rule_of_cap(rule, grant.family))
        elif grant.passes_on and "secrets" in caps.capped:
            # Whatever the operator's environment holds under a name may be a secret.
            value = SecretGrant.model_construct(name=str(grant.value), inject=None)
            if not covers_secret(caps.secrets, value, permissions):
                findings.refuse(
                    grant.path,
                    f"{grant.text} passes on what may be a secret, and {said}",
                    f"give the variable a value, `NAME=VALUE`, or have it named under `env` in the rule: {file.name}",
                    file.rule_of_cap(rule, "secrets"),
                )
    for family in sorted(caps.capped):  # those about paths are noted once these were judged
        written = file.rule_of_cap(rule, family)
        if family not in _PATHS:
            findings.consult(written, "refuses what is asked for" if findings.is_against(written) else "is kept")
    return tuple(_path_rules(file, rule, caps, said, hint, working_dir, owner))


def _covers(caps: GrantCaps, grant: RequestedGrant, permissions: Permissions) -> bool:
    value = grant.value
    if isinstance(value, SecretGrant):
        return covers_secret(caps.secrets, value, permissions)
    match grant.family:
        case "net":
            return covers_net(caps.net, value)
        case "env":
            return covers_env(caps.env, value)
        case "call":
            return covers_call(caps.call, value)
    return covers_text(getattr(caps, grant.family), value)


def _path_rules(
    file: PolicyFile, rule: ModuleRule, caps: GrantCaps, said: str, hint: str, working_dir: Path, owner: Owner
) -> Iterator[GrantPathRule]:
    """Yield what caps say of paths. What may be written may be read: a cap of one has a say in the other."""
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
        if ANY_PROGRAM in caps.run:  # all that it can see
            programs += (*reads, *writes) if {"read", "write"} & caps.capped else (_ROOT,)
        yield GrantPathRule(frozenset({"run"}), programs, file.rule_of_cap(rule, "run"), said, hint)
    elif "read" in caps.capped:
        includes = f"includes reading it, and {said}"
        yield GrantPathRule(frozenset({"run"}), (*reads, *writes), file.rule_of_cap(rule, "read"), includes, hint)
