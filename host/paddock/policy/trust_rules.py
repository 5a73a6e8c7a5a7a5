"""What a plan may ask for that nobody accepted: the working directory, and nothing that is the operator's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paddock.plan.problems import NotAcceptedError, path_text
from paddock.policy.decision import GrantRequest, Trust
from paddock.policy.findings import PolicyFindings
from paddock.policy.floor import Floor
from paddock.policy.rule import BUILT_IN, Rule
from paddock.policy.rules.paths import GrantPathRule
from paddock.policy.source_name import SourceName

_UNACCEPTED: Final = Rule(
    BUILT_IN,
    "a plan that nobody accepted gets no network, no secrets, no variables, no kept state, no weaker isolation, no "
    "module at another kind's mount point, no path, program by its path or code outside the working directory, and "
    "nothing to write to that other programs run by themselves",
)
# What a plan states is accepted with where it leads. What was given besides is written by how it was proposed: inside.
_GIVEN: Final = Rule(BUILT_IN, "a path that was given for the working directory leads nowhere else")
_LEADS_OUT: Final = "lies outside the working directory, for which it was given"
_STATE: Final = "grant it in the plan, by where it leads, or have it lead into the working directory"
_ROOT: Final = Path("/")
_ACCEPT: Final = "`--trust-plan` accepts what the plan says, and so does saying yes to `paddock run` on a terminal"
_TAKES_TRUST: Final = "takes a plan that you accepted"


def judge_trust(
    request: GrantRequest,
    trust: Trust,
    working_dir: Path,
    floor: Floor,
    findings: PolicyFindings,
    folder: Path | None = None,
) -> tuple[GrantPathRule, ...]:
    """Note what an entry asks for that takes an accepted plan, and return the rules about paths that follow.

    `folder` is that of the plan, if it is in any.
    """
    rule = trust.rule or _UNACCEPTED
    families = frozenset({"read", "write", "run"})
    if trust.accepted:
        if trust.rule is not None:
            findings.consult(rule, "the plan is accepted")
        return (GrantPathRule(families, (working_dir,), trust.rule or _GIVEN, _LEADS_OUT, _STATE, binds="given"),)
    findings.consult(rule, "the plan is not accepted")
    for grant in request.grants():
        is_of_the_operators = grant.family in ("net", "secrets", "mount") or grant.passes_on
        if is_of_the_operators and grant.given is None:
            findings.refuse(grant.path, f"{grant.text} {_TAKES_TRUST}", _ACCEPT, rule)
    if folder is not None and request.entry.source is not None:
        _judge_place(request, (folder, working_dir), rule, findings)
    if request.entry.state == "keep":
        findings.refuse(path_text(request.entry.path, "state"), f"a folder that is kept {_TAKES_TRUST}", _ACCEPT, rule)
    level = request.entry.isolation
    if level is not None and level not in floor.levels and level != request.named and not floor.is_fixed:
        findings.refuse(
            path_text(request.entry.path, "isolation"),
            f"isolation level `{level}` {_TAKES_TRUST}",
            f"{_ACCEPT}; `--isolation {level}` accepts this level alone",
            rule,
        )
    said = f"lies outside the working directory `{working_dir}`, which {_TAKES_TRUST}"
    opens = f"is what your own programs run by themselves, which {_TAKES_TRUST}"
    return (
        GrantPathRule(families, (working_dir,), rule, said, _ACCEPT, binds="stated"),
        GrantPathRule(
            frozenset({"write"}), (working_dir, _ROOT), rule, opens, _ACCEPT, binds="stated", keeps_guarded=True
        ),
    )


def _judge_place(request: GrantRequest, around: tuple[Path, ...], rule: Rule, findings: PolicyFindings) -> None:
    """Note a folder that code is to come from and that is not the plan's to name: a module reads all of its own."""
    try:
        name = SourceName.of(request.source)
    except NotAcceptedError:
        return  # refused for that
    if name.family != "folder" and name.scheme != "file":
        return
    if not any(Path(name.path).is_relative_to(place.resolve()) for place in around):
        path = path_text(request.entry.path, "source")
        said = f"`{name.path}` lies neither beside the plan nor in the working directory, which {_TAKES_TRUST}"
        findings.refuse(path, said, _ACCEPT, rule)
