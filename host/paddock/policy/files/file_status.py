"""The status of each operator's file that applies to the user of this process, with what it bounds or decides.

A file that cannot be trusted or understood stops every session; here it is a result like any other, so that a person
sees all of them at once. No secret's value is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from paddock.errors import PlanProblem, PolicyFileError
from paddock.plan.limits import limit_text
from paddock.plan.permissions import FAMILIES
from paddock.plan.units import size_text
from paddock.policy.files.accepted_plans import AcceptedPlan
from paddock.policy.files.grants import GrantsFile
from paddock.policy.files.owned_file import ROOT, OperatorFile, user_config_folder
from paddock.policy.files.policy import SYSTEM_FILE, rules_about
from paddock.policy.files.policy_file import ModuleRule, PolicyFile
from paddock.policy.files.secrets import secrets_in
from paddock.policy.files.sources import read_source_settings
from paddock.policy.owner import Owner
from paddock.policy.source_name import SourceName
from paddock_sandbox.profile import ISOLATION_LEVELS
from paddock_sources import BuiltinSource

FileState = Literal["in force", "valid", "absent", "refused"]

_LOCAL_GIT: Final = "that counts for repositories on this machine, which are on `127.0.0.1`"
_OUTLIVES_POWER: Final = "turns and the beginnings of tool calls outlive a power failure"
_NAMES: Final = ("policy.toml", "grants.toml", "secrets.toml", "sources.toml")


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file: `bounds` are lines for people; `error` says why it is refused, as far as it is.

    `warnings` are about rules that leave open what other rules of the file bound. Its state is `valid` where it was
    only checked, and would be taken.
    """

    path: Path
    state: FileState
    bounds: tuple[str, ...] = ()
    error: PolicyFileError | None = None
    warnings: tuple[PlanProblem, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return it for scripts."""
        problems = [] if self.error is None else [one.as_dict() for one in self.error.problems]
        warnings = [one.as_dict() for one in self.warnings]
        return {
            "file": str(self.path),
            "state": self.state,
            "bounds": list(self.bounds),
            "warnings": warnings,
            "problems": problems,
        }


def statuses_of_files(environ: Mapping[str, str]) -> tuple[FileStatus, ...]:
    """Return the machine's policy and the user's policy, grants, places of secrets and settings of sources."""
    owner, folder = Owner.current(environ), user_config_folder(environ)
    return (_status(SYSTEM_FILE, ROOT), *(_status(folder / name, owner) for name in _NAMES))


def status_of_file(path: Path, environ: Mapping[str, str]) -> FileStatus:
    """Return what the file at `path` would bound; its name says which of the four it is, else it is a policy.

    Who owns it and may write to it counts, as for a file in force.
    """
    place = path.absolute()
    return replace(_status(place, ROOT if place == SYSTEM_FILE else Owner.current(environ), "valid"), path=path)


def _status(path: Path, owner: Owner, state: FileState = "in force") -> FileStatus:
    try:
        match path.name:
            case "grants.toml":
                found = _of_grants(path, owner)
            case "secrets.toml":
                found = None
                if (file := OperatorFile.read(path, owner)) is not None:
                    ways = secrets_in(file).items()
                    found = [f"line {one.line}: says where `{name}` is, by {one.way}" for name, one in ways]
            case "sources.toml":
                settings = read_source_settings(path, owner)
                found = None if settings is None else [f"names another source for `{one}`" for one in settings.modules]
            case _:
                policy = PolicyFile.read(path, owner)
                if policy is None:
                    return FileStatus(path, "absent")
                bounds = (*_bounds_of_all(policy), *(_bounds_of_rule(policy, rule) for rule in policy.modules))
                return FileStatus(path, state, bounds, warnings=left_open(policy))
    except PolicyFileError as error:
        return FileStatus(path, "refused", error=error)
    return FileStatus(path, "absent") if found is None else FileStatus(path, state, tuple(found))


def _bounds_of_all(file: PolicyFile) -> Iterator[str]:
    rule, networks, sent = file.journal, ", ".join(map(str, file.refused_networks)), file.audit.forward
    unenforced, hosts = ", ".join(sorted(file.allow_unenforced)), file.git_hosts
    kept = "" if rule.keep is None else f"sessions are kept for {rule.keep / 86_400:g} days"
    kept = "no session is kept" if rule.is_off else "sessions are kept, however old" if rule.is_forever else kept
    most = "" if rule.size is None else f"kept sessions take {size_text(rule.size)} at most"
    bounds: list[tuple[str, object, str]] = [
        # the place, whether it is there, what it says
        ("minimum_isolation", file.minimum_isolation, f"no module runs below `{file.minimum_isolation}`"),
        ("allow_unenforced", unenforced, f"{unenforced}: may be written where the machine cannot enforce it"),
        ("git_hosts", hosts is not None, f"code by git comes from {', '.join(hosts or ()) or 'nowhere'}"),
        ("bind_local_git", file.bind_local_git, _LOCAL_GIT),
        ("mirrors", file.mirrors, f"these stand for public addresses: {', '.join(file.mirrors)}"),
        ("require_pinned", file.require_pinned, "a git source names a whole commit, or is locked"),
        ("refused_networks", networks, f"no module connects to {networks}"),
        ("journal.keep", kept, kept),
        ("journal.size", most, most),
        ("journal.durability", rule.outlives_power, _OUTLIVES_POWER),
        ("journal.required", rule.required, "a session whose journal cannot be written does not go on"),
        ("audit.forward", sent, f"each line of the audit log is also sent to {sent}"),
        ("audit.required", file.audit.required, "nothing starts or goes on where the audit log cannot be written"),
    ]
    yield from (_line(file, place, said) for place, is_there, said in bounds if is_there)
    for name, value in file.max_limits:
        if value is not None:
            yield _line(file, f"max_limits.{name}", f"{name} is at most {limit_text(name, value)}")
    for name, value in file.user_limits:
        if value is not None:
            yield _line(file, f"user_limits.{name}", f"all sessions of a user: {name} is {limit_text(name, value)}")


def _bounds_of_rule(file: PolicyFile, rule: ModuleRule) -> str:
    parts = [f"denied: {rule.deny}"] if rule.deny is not None else []
    parts += [f"at level `{rule.level}` or above"] if rule.level is not None else []
    parts += [f"{name} at most {limit_text(name, value)}" for name, value in rule.limits if value is not None]
    if rule.caps is not None:
        capped = [(family, ", ".join(rule.caps.texts(family))) for family in sorted(rule.caps.capped)]
        parts += [f"{family} at most {texts}" if texts else f"no {family}" for family, texts in capped]
    return _line(file, f"{rule.path}.match", f"modules from `{rule.match.text}`: {'; '.join(parts) or 'no bound'}")


def _line(file: PolicyFile, path: str, said: str) -> str:
    line = file.positions.line_of(path)
    return said if line is None else f"line {line}: {said}"


def _of_grants(path: Path, owner: Owner) -> list[str] | None:
    plans = GrantsFile(owner, path).all()
    if not plans and not os.path.lexists(path):
        return None
    by_name: dict[str, list[AcceptedPlan]] = {}
    for one in plans:
        by_name.setdefault(one.plan, []).append(one)
    return [_accepted_line(name, versions) for name, versions in by_name.items()]


def _accepted_line(name: str, versions: Sequence[AcceptedPlan]) -> str:
    """Return the line about a plan that was accepted, perhaps again after each change."""
    lines = ", ".join(str(one.line) for one in versions)
    what = f"`{name}`" if name else "plans without a file"
    granted = ", ".join(dict.fromkeys(grant.place for one in versions for grant in one.grants))
    if len(versions) == 1:
        return f"line {lines}: accepts {what}" + (f", and grants {granted}" if granted else "")
    return f"lines {lines}: accept versions of {what}" + (f", and grant {granted}" if granted else "")


def left_open(file: PolicyFile) -> tuple[PlanProblem, ...]:
    """Return a warning for each rule and each wider one whose bounds it takes away, at the rule's line.

    Also for each rule that denies modules of Paddock's own.

    Within a file only the most specific rule about a source applies, as a whole. So a rule that only sets a limit also
    takes the bounds of a wider rule away from its modules, which few people mean. Nothing is decided here: the file
    says what it says. Another file takes nothing away, since each file bounds by itself.
    """
    return tuple(warning for rule in file.modules for warning in _warnings(file, rule))


def _warnings(file: PolicyFile, rule: ModuleRule) -> Iterator[PlanProblem]:
    if rule.match.text in BuiltinSource().list():
        said = f"`{rule.match.text}` is a package here, and not the module that comes with Paddock"
        hint = f'if that is meant: match = "builtin:{rule.match.text}"'
        yield PlanProblem(f"{rule.path}.match", said, hint, file.positions.line_of(f"{rule.path}.match"))
    if rule.deny is not None:
        own = [one for one in BuiltinSource().list() if rule in rules_about(SourceName.of(f"builtin:{one}"), file)[0]]
        if own:
            said = f"this denies modules that come with Paddock: {', '.join(own)}"
            hint = 'if that is not meant, give match = "builtin:*" a rule of its own'
            yield PlanProblem(f"{rule.path}.deny", said, hint, file.positions.line_of(f"{rule.path}.deny"))
        return
    wider = [one for one in file.modules if one.match.literal < rule.match.literal]
    named: set[str] = set()
    for one in sorted(wider, key=lambda one: -one.match.literal):
        lost = [name for name in _lost(file, rule, one) if name not in named]
        if not lost or not rule.match.overlaps(one.match):
            continue
        named.update(lost)
        path, line = f"{rule.path}.match", file.positions.line_of(f"{one.path}.match")
        place = f"line {line} (`{one.match.text}`)" if line is not None else f"the rule for `{one.match.text}`"
        yield PlanProblem(
            path,
            f"modules from `{rule.match.text}` are not bounded by {place}: {', '.join(lost)}",
            "only the most specific rule counts: repeat in it what is to bound these modules too",
            file.positions.line_of(path),
        )


def _lost(file: PolicyFile, rule: ModuleRule, wider: ModuleRule) -> Iterator[str]:
    """Yield the families, limits and the level that `wider` bounds, and neither `rule` nor the whole file does."""
    kept = rule.caps.capped if rule.caps is not None else frozenset()
    capped = wider.caps.capped if wider.caps is not None else frozenset()
    yield from (family for family in FAMILIES if family in capped - kept)
    for name, most in wider.limits:
        of_all = getattr(file.max_limits, name)
        if most is not None and getattr(rule.limits, name) is None and (of_all is None or of_all > most):
            yield name
    if wider.level is not None and rule.level is None:
        levels = ISOLATION_LEVELS[: ISOLATION_LEVELS.index(wider.level) + 1]
        if file.minimum_isolation not in levels:
            yield "level"
