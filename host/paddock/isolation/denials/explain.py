"""Explain whether a module may do something, why, and which line would allow it.

The answers come from the module's actual sandbox (its mounts and programs) and from the permissions in effect; nothing
is tried. Acts through the host are explained by the code that decides about them.

Paths are followed by two means, on purpose (session/decisions.md, 0001). An operator's path is resolved as a grant
would be (`ReachablePath`): links outside the grants are looked up. A path that a module chose never is: `AttemptedPath`
follows it within the module's mounts only, and `explain_kept` looks up nothing further.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, get_args

from paddock.authorization.suggestions.needs import Needs
from paddock.authorization.suggestions.pasted import pasted
from paddock.authorization.suggestions.service_needs import is_credential, use_of_secret
from paddock.errors import CallRefusedError
from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.isolation.denials.reachable_path import ReachablePath
from paddock.plan.families import MOUNTED_BY_GRANT, is_program_path
from paddock.plan.host_name import Destination, parse_authority
from paddock.plan.net_rule import DEFAULT_PORT, SELF, NetRule
from paddock.plan.permissions import Permissions, permissions_line
from paddock.plan.problems import NotAcceptedError
from paddock.policy.guarded_paths import runner_of
from paddock.policy.located_program import locate
from paddock.policy.path_walk import GrantedPath
from paddock.policy.programs import SEARCH_PATH, Program
from paddock_sandbox.profile import ANY_PROGRAM, SandboxProfile
from paddock_sdk.kernel.mounts import RESOLVER_POINT

Family = Literal["read", "write", "run", "net", "env", "secrets", "call", "emit", "hooks", "mount"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_GIVEN_TO_ALL: Final = (
    *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"),
    *("GIT_OPTIONAL_LOCKS", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
)
_CALLED: Final = ("tools", "providers", "context", "spawn", "state")
_MOUNT_POINTS: Final = ("tools", *MOUNTED_BY_GRANT, RESOLVER_POINT)
_Wanted = Callable[[], GrantedPath | None]  # finds what to grant, or raises `NotAcceptedError`
_NO_ISOLATION: Final = "isolation level `none` refuses nothing"


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer: `reason` is why, `by` is the grant that allows it, `layer` the mechanism that enforces it.

    `grant` is the line that would allow what is refused, as it has to stand in the entry: with all that is in effect
    already, in the place of `in_place_of`, if the entry has that. It is empty where no line would, or none is needed.
    `added` are the permissions that are then in effect. `instead` is another way to write a part of it.
    """

    allowed: bool
    reason: str
    layer: str
    by: str = ""
    grant: str = ""
    in_place_of: str = ""
    added: Permissions | None = None
    instead: str = ""


def explain(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    """Return whether a module may do what `family` is about to `target`, and why.

    Raises:
        NotAcceptedError: `target` is nothing that such a permission could be about.
    """
    if not target or not target.isprintable():
        raise NotAcceptedError(f"`{target}` is empty or has an unprintable character")
    return _EXPLAINED[family](subject, family, target)


def explain_kept(subject: ExplainedModule, family: Family, path: Path, nearest: Path) -> Explanation:
    """Return why a module may not write to a path, or read one that is excluded; `nearest` is its last existing part.

    For a path without links in it: nothing is looked up.
    """
    granted = GrantedPath(subject.written_as(nearest), nearest, nearest, (), is_directory=True)
    return _withheld(subject, family, path, path) or _only_read(subject, path, path, lambda: granted)


def _allowed(reason: str, layer: str, by: str = "") -> Explanation:
    return Explanation(True, reason, layer, by)


def _refused(
    subject: ExplainedModule,
    family: Family,
    reason: str,
    layer: str,
    grant: str = "",
) -> Explanation:
    if not grant:
        return Explanation(False, reason, layer)
    return _refused_without(subject, reason, layer, Permissions.model_validate({family: [grant]}))


def _refused_without(
    subject: ExplainedModule,
    reason: str,
    layer: str,
    missing: Permissions,
) -> Explanation:
    in_effect = subject.entry.permissions
    written = subject.written if subject.written is not None else in_effect
    replaced = ""
    if written != Permissions():
        whole = written.as_written()
        replaced = f"permissions: {whole}" if isinstance(whole, str) else "permissions"
    added, left = pasted(in_effect, missing)
    if left:
        return Explanation(False, f"{reason}; no line is proposed for {' and '.join(left)}", layer)
    return Explanation(False, reason, layer, grant=permissions_line(added), in_place_of=replaced, added=added)


# -- files and programs --------------------------------------------------------------------


def _file(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    if subject.profile.level == "none":
        return _allowed(f"{_NO_ISOLATION}: it may do all that the user who runs it may", "files")
    path = ReachablePath.find(target, subject)
    if (withheld := _withheld(subject, family, path.real, path.place)) is not None:
        return withheld
    wants_write = family == "write"
    wanted = partial(path.wanted, wants_write=wants_write)
    standing = path.standing(wants_write=wants_write)
    if standing is None:
        return _only_read(subject, path.real, path.place, wanted)
    if standing.allowed:
        return _allowed(standing.reason, "files", standing.by)
    return _ungranted(subject, family, standing.reason, wanted)


def _withheld(subject: ExplainedModule, family: Family, real: Path, place: Path) -> Explanation | None:
    """Explain a path that is excluded from what may be read, or Paddock's own, if it is either."""
    if (closed := subject.excluded(real)) is not None:
        added = subject.opened(family, closed)
        reason = f"`{closed}` is excluded from what it may read, so it is there and cannot be opened"
        return replace(_refused_without(subject, reason, "files", added), grant=permissions_line(added), added=added)
    covered = subject.why_covered(place)
    return None if covered is None else _refused(subject, family, covered, "files")


def _only_read(subject: ExplainedModule, real: Path, place: Path, wanted: _Wanted) -> Explanation:
    """Explain a path that may be read, and not written to."""
    if any(mount.writable for mount in subject.mounts_around(place)):
        return _kept(subject, real)
    return _ungranted(subject, "write", "it may be read, and not written to", wanted)


def _ungranted(subject: ExplainedModule, family: Family, reason: str, wanted: _Wanted) -> Explanation:
    try:
        granted = wanted()
        if granted is not None and family == "write":
            granted.refuse_writing_to_the_system()
            subject.fixed.refuse(granted, by_mounts=subject.has_namespaces)
    except NotAcceptedError as error:
        return _refused(subject, family, f"{reason}; it cannot be granted: {error.problem}", "files")
    return _refused(subject, family, reason, "files", "" if granted is None else granted.written)


def _kept(subject: ExplainedModule, real: Path) -> Explanation:
    """Explain a place in a folder that may be written to, which itself may not."""
    for kept in subject.protected:
        if real.is_relative_to(kept):
            reason = (
                f"{runner_of(kept)} may run what is in `{kept}`, so it stays as it is unless it is granted by itself"
            )
            return _refused(subject, "write", reason, "files", subject.written_as(kept))
    codes = ((code.root, f"which is the code of module `{code.module_id}`") for code in subject.fixed.codes)
    for fixed, what in (*codes, *subject.fixed.others):
        if real.is_relative_to(fixed):
            return _refused(subject, "write", f"no module may change `{fixed}`, {what}", "files")
    return _refused(subject, "write", "Paddock runs from it, or its session depends on it", "files")


def _program(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    profile = subject.profile
    if profile.level == "none":
        return _allowed(_NO_ISOLATION, "programs")
    name = Path(target).name
    is_path = is_program_path(target) and os.path.dirname(target) not in SEARCH_PATH
    written = _program_written(subject, target) if is_path else name
    try:
        program = locate(written, subject.working_dir, subject.owner) if is_path else Program.find(name)
    except NotAcceptedError as error:
        problem = f"{error.problem}; {error.accepted}" if error.accepted else error.problem
        return _refused(subject, family, problem, "programs")
    missing = [path for path in (program.files if is_path else (program.path,)) if not _is_executable(profile, path)]
    if not missing:
        granted = subject.permissions.run
        by = f"run: {json.dumps(granted)}" if granted else "its source"
        return _allowed(f"it is {program.describe()}", "programs", by)
    reason = subject.programs_text
    if missing[0] != program.path:
        reason = f"it needs {missing[0]}, and {reason}"
    return _refused(subject, family, reason, "programs", written)


def _program_written(subject: ExplainedModule, target: str) -> str:
    """Return a program's path as a plan would spell it, with the names of its links."""
    if target.startswith("~/"):
        return target
    return subject.written_as(Path(os.path.normpath(subject.working_dir / target)))


def _is_executable(profile: SandboxProfile, path: Path) -> bool:
    if ANY_PROGRAM in profile.programs:
        return any(mount.mappable and path.is_relative_to(mount.source) for mount in profile.mounts)
    return any(path.is_relative_to(program) for program in profile.programs)


# -- network, variables, secrets -----------------------------------------------------------


def _network(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    destination = parse_authority(target, DEFAULT_PORT)
    if subject.profile.level == "none":
        return _allowed(_NO_ISOLATION, "network")
    rules = [NetRule.parse(written) for written in subject.permissions.net]
    if target == SELF:
        if subject.profile.serves:
            return _allowed("it may listen, and connect to itself, where nothing else is", "network", "net: self")
        return _refused(subject, family, "it was granted no loopback of its own", "network", SELF)
    found = next((rule for rule in rules if rule.matches(destination)), None)
    if found is not None:
        return _allowed(_why_allowed(found), "egress", f"net: {found.written}")
    if not rules:
        reason = "it was granted no network, and cannot make a socket"
        return _refused(subject, family, reason, "network", destination.text)
    return _refused(subject, family, _why_no_rule(rules, destination), "egress", destination.text)


def _why_allowed(rule: NetRule) -> str:
    if rule.is_public:
        return (
            "it may reach ANY public host by its name, at ports 80 and 443; what the name leads to has to be a public "
            "address, neither of this machine nor of a network that it is in"
        )
    by_name = isinstance(rule.hosts, str)
    return "what the name leads to has to be a public address" if by_name else "the address was granted literally"


def _why_no_rule(rules: list[NetRule], destination: Destination) -> str:
    ports = sorted({port for rule in rules if rule.names(destination.host) for port in rule.ports})
    if ports:
        return f"it may reach that host at port {' and '.join(map(str, ports))} only"
    granted = ", ".join(rule.text for rule in rules)
    if not isinstance(destination.host, str):
        return f"an address has to be granted literally, and it may reach only {granted}"
    if any(rule.is_public for rule in rules):
        return f"that is the name of no public host, and it may reach only {granted}"
    return f"it may reach only {granted}"


def _variable(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    _require_name(target)
    for grant in subject.permissions.env:
        name, is_set, _ = grant.partition("=")
        if name == target:
            passed_on = "it is passed on, if it is set where Paddock runs"
            return _allowed("the plan sets it" if is_set else passed_on, "launcher", f"env: {name}")
    if target in _GIVEN_TO_ALL:
        return _allowed("every module has it, with a value of its own", "launcher")
    reason = "of the environment that Paddock runs in it is given nothing but what is named"
    if not is_credential(target):
        return _refused(subject, family, reason, "launcher", target)
    # What may be a key is proposed for one host only, and never by its value.
    is_granted = subject.permissions.secret(target) is not None
    return _unused_secret(subject, target, reason, is_granted=is_granted, is_referred_to=False)


def _secret(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    _require_name(target)
    grant = subject.permissions.secret(target)
    is_referred_to = subject.references is None or target in subject.references
    if grant is None or not is_referred_to:
        reference = f"${{{target}}}"
        if grant is not None:
            reason = f"it is granted, but neither its `config` nor its `env` says `{reference}`, so it has it nowhere"
        elif is_referred_to:
            reason = f"no `{reference}` in its configuration is filled in"
        else:
            reason = f"it is not granted, and neither its `config` nor its `env` says `{reference}`"
        return _unused_secret(subject, target, reason, is_granted=grant is not None, is_referred_to=is_referred_to)
    if grant.inject is None:
        return _allowed(f"it is given the value wherever its configuration says `${{{target}}}`", "launcher", "secrets")
    reason = "it never sees the value, which is put into its requests to that host"
    return _allowed(reason, "egress", f"secrets: {target}, inject: {grant.inject}")


def _unused_secret(
    subject: ExplainedModule, name: str, reason: str, *, is_granted: bool, is_referred_to: bool
) -> Explanation:
    """Explain a secret that lacks a grant, a `${NAME}` that stands for it, or both."""
    reference = f"${{{name}}}"
    use = Needs() if is_granted else use_of_secret(name, subject.permissions.net)
    if use.lacks:
        return _refused(subject, "secrets", f"{reason}; {'; '.join(use.lacks)}", "launcher")
    missing = use.permissions
    if is_referred_to:
        return _refused_without(subject, reason, "launcher", missing)
    found = _refused_without(subject, reason, "launcher", missing.model_copy(update={"env": (f"{name}={reference}",)}))
    return replace(found, instead=f'config: {{api_key: "{reference}"}}')


def _require_name(target: str) -> None:
    if not _VARIABLE.fullmatch(target):
        raise NotAcceptedError(f"`{target}` is not the name of an environment variable", "as in `OPENAI_API_KEY`")


# -- through the host ----------------------------------------------------------------------


def _call(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    point, colon, name = target.partition(":")
    if point not in _CALLED or (colon and not name):
        raise NotAcceptedError(
            f"`{target}` is not understood", "what is called is `tools`, `tools:<name>`, `providers`, …"
        )
    if subject.rights.may_call(point, name or None):
        is_kind = not subject.permissions.call
        by = "" if is_kind else f"call: {json.dumps(subject.permissions.call)}"
        return _allowed(_of_kind(subject) if is_kind else "it was granted", "router", by)
    reason = f"a {subject.entry.kind} may call its own objects and those it is handed"
    return _refused(subject, family, reason, "router", target if point in ("tools", "state") else point)


def _emit(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    if subject.rights.may_emit(target):
        return _allowed(_of_kind(subject) if not subject.permissions.emit else "its kind or a grant has it", "router")
    reason = f"it is an event of the contract that a {subject.entry.kind} has no business with"
    return _refused(subject, family, reason, "router", target)


def _handle(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    try:
        subject.rights.check_handler(target)
    except CallRefusedError:
        reason = f"a {subject.entry.kind} handles only the events that it is granted"
        return _refused(subject, family, reason, "router", target)
    by = f"hooks: {json.dumps(subject.permissions.hooks)}" if subject.permissions.hooks else ""
    return _allowed("it was granted" if by else _of_kind(subject), "router", by)


def _mount(subject: ExplainedModule, family: Family, target: str) -> Explanation:
    if target not in _MOUNT_POINTS:
        raise NotAcceptedError(f"`{target}` is not understood", f"a mount point is {', '.join(_MOUNT_POINTS)}")
    if subject.rights.may_mount(target):
        by = f"mount: {json.dumps(subject.permissions.mount)}" if target in subject.permissions.mount else ""
        return _allowed("it was granted" if by else _of_kind(subject), "router", by)
    if target == RESOLVER_POINT:
        return _refused(subject, family, "a resolver decides which code is trusted: the application's alone", "router")
    reason = f"what is mounted there acts for the session, and the module is of kind {subject.entry.kind}"
    return _refused(subject, family, reason, "router", target)


def _of_kind(subject: ExplainedModule) -> str:
    return f"a module of its kind ({subject.entry.kind}) may"


_EXPLAINED: Final[Mapping[Family, Callable[[ExplainedModule, Family, str], Explanation]]] = {
    "read": _file,
    "write": _file,
    "run": _program,
    "net": _network,
    "env": _variable,
    "secrets": _secret,
    "call": _call,
    "emit": _emit,
    "hooks": _handle,
    "mount": _mount,
}
