"""Judge where modules may come from: hosts of repositories, and whether a source has to name its exact content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from paddock.plan.host_name import split_port
from paddock.plan.problems import NotAcceptedError
from paddock.policy.files.policy import Policy
from paddock.policy.rule import PolicyFindings, Rule, written_list
from paddock.policy.source_name import DEFAULT_PORTS, SourceName, without_credentials
from paddock_sources import parse_source

if TYPE_CHECKING:
    from paddock.policy.files.policy_file import PolicyFile

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def judge_source(path: str, source: str, policy: Policy, findings: PolicyFindings, *, commit: str = "") -> None:
    """Note the objections to a source at `path` in the plan, whose code was locked to `commit`, if to any."""
    try:
        name = SourceName.of(source)
    except NotAcceptedError as error:
        for rule in _dependent(policy):
            findings.refuse(path, f"{error.problem}, and rules depend on what it is", error.accepted, rule)
        return
    for file in policy.files:
        _judge_host(path, source, name, file, findings)
        _judge_pin(path, source, file, findings, commit)


def _judge_host(path: str, source: str, name: SourceName, file: PolicyFile, findings: PolicyFindings) -> None:
    if file.git_hosts is None:
        return
    rule = file.rule("git_hosts", written_list(file.git_hosts))
    if name.family != "git" or name.scheme == "file":
        findings.consult(rule, "is not about this source, which no host serves")
        return
    port = name.port or DEFAULT_PORTS[name.scheme]
    if any(_is_host(listed, name, port) for listed in file.git_hosts):
        findings.consult(rule, f"lists `{name.host}`")
        return
    shown = name.host if name.port is None else f"{name.host}:{name.port}"
    findings.consult(rule, f"does not list `{shown}`")
    known = ", ".join(f"`{host}`" for host in file.git_hosts) or "none"
    findings.refuse(
        path,
        f"`{name.text}` is on `{shown}`, and repositories may come from: {known}",
        f"use a copy on one of these, or have the host added: {file.name}",
        rule,
    )


def _is_host(listed: str, name: SourceName, port: int) -> bool:
    host, listed_port = split_port(listed)
    if port != (listed_port or DEFAULT_PORTS[name.scheme]):
        return False
    # With its dot: `*.example.org` is neither `example.org` nor `badexample.org`.
    return name.host.endswith(host[1:]) if host.startswith("*.") else name.host == host


def _judge_pin(path: str, source: str, file: PolicyFile, findings: PolicyFindings, commit: str) -> None:
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
