"""Describe what grants let a module do, for the person who is to accept them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from paddock.plan.families import EXCLUDED_SECRETS, EXCLUSION, FAMILIES, is_program_path
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, Preset, SecretGrant, grants_of, preset_grants
from paddock.plan.problems import NotAcceptedError, path_text
from paddock.policy.exclusions import SECRETS
from paddock.policy.grant_request import OperatorGrant, RequestedGrant, grants_asked, union_of
from paddock.policy.guarded_paths import GuardedPaths, runner_opened
from paddock.policy.guarded_places import GIT_COMMAND
from paddock.policy.located_program import locate
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock_sandbox.profile import ANY_PROGRAM

_BESIDES: Final = "copies, hard links and later files it may"
NO_SECRETS_READ: Final = f"does not read your secret files that git does not have (.env, keys, tokens): {_BESIDES}"
_MAX_KEPT: Final = 8  # names of one line


def grant_lines(
    entry: ModuleEntry, given: Iterable[OperatorGrant], working_dir: Path, owner: Owner
) -> Iterator[tuple[RequestedGrant, str]]:
    """Yield a line for each grant that an entry states, then for each further one, with what it means here."""
    besides = tuple(given)
    granted = union_of(entry, besides)
    for grant in grants_asked(entry, besides):
        yield grant, _line(grant, granted, working_dir, owner)


def far_reaching_lines(entry: ModuleEntry, working_dir: Path, owner: Owner) -> Iterator[str]:
    """Yield a line for each grant of an entry that lets its module do more than the grant's own words say."""
    granted = grants_of(entry.permissions)
    for written in granted.write:
        try:
            path = GrantedPath.resolve(written, working_dir, owner).path
        except NotAcceptedError:
            continue  # starting the module is refused, with the reason
        if opened := what_writing_opens(path, working_dir, owner.home):
            yield f"writes {path}{opened}"
    yield from (connects_to(rule) for rule in map(NetRule.parse, granted.net) if rule.is_public)


def kept_line(
    granted: Permissions, preset: Preset | None, working_dir: Path, owner: Owner, fixed: Collection[Path]
) -> tuple[str, tuple[str, ...]]:
    """Describe what stays as it is in folders that may be written to, with the paths of `write` that open it.

    Both are empty where nothing does. The line names the first few, and so do the paths. Nothing opens what is `fixed`.
    An entry that names a `preset` keeps its name beside that grant.
    """
    writes: dict[Path, str] = {}
    for grant in granted.write:
        with suppress(NotAcceptedError):  # starting the module is refused, with the reason
            writes[GrantedPath.resolve(grant, working_dir, owner).path] = grant
    found = (GuardedPaths.find(folder, owner.home) for folder in writes if folder.is_dir())
    kept = {path for one in found for path in one.to_protect(writes)}
    for place in fixed:
        kept = {path for path in kept if not (path.is_relative_to(place) or place.is_relative_to(path))}
    if EXCLUDED_SECRETS in granted.read:  # a line that opens one to writers would open it to readers as well
        kept = {path for path in kept if not any(row.is_named(path.name) for row in SECRETS)}
    written = (_as_written(path, working_dir) for path in sorted(kept))
    names = [name for name in written if name.isprintable()]  # no grant has any other
    if not names:
        return "", ()
    first = names[:_MAX_KEPT]
    text = ", ".join(first)
    if len(names) > len(first):
        text += f" and {len(names) - len(first)} more"
    opening = (*writes.values(), *first)
    named: str = ""
    has: tuple[str, ...] = ()
    if preset is not None:
        named = f"preset: {preset}, "
        has = preset_grants()[preset].write
    line = json.dumps([one for one in opening if one not in has], ensure_ascii=False)
    opens = f"`{named}write: {line}` under `permissions` opens that"
    return f"writing {text}, which your own programs run (kept at `ns` and `bwrap`); {opens}", opening


def _as_written(path: Path, working_dir: Path) -> str:
    """Return a path as a grant states it: the name of a folder in there, such as `~` or `!x`, means nothing else."""
    if not path.is_relative_to(working_dir):
        return str(path)
    name = str(path.relative_to(working_dir))
    return name if name[0] == "." or name[0].isalnum() else f"./{name}"


def _line(grant: RequestedGrant, granted: Permissions, working_dir: Path, owner: Owner) -> str:
    value = grant.value
    if isinstance(value, SecretGrant):
        return _secret(value, granted)
    if grant.excludes and value == EXCLUDED_SECRETS:
        return NO_SECRETS_READ
    if grant.excludes:
        return f"does not read {value.removeprefix(EXCLUSION)}, as found at the start: {_BESIDES}"
    match grant.family:
        case "read" | "write":
            return f"{FAMILIES[grant.family].does} {_path(value, working_dir, owner, grant.family)}"
        case "net":
            return connects_to(NetRule.parse(value))
        case "env":
            name, is_set, _ = value.partition("=")
            return f"has the variable {name} as the plan sets it" if is_set else f"is passed your variable {name}"
        case "run":
            return _program(value, working_dir, owner)
    return f"{FAMILIES[grant.family].does}: {value}"


def connects_to(rule: NetRule) -> str:
    """Describe what a rule of `net` lets a module do."""
    if rule.is_self:
        return "serves and connects on a loopback of its own, where nothing else is"
    if not rule.is_public:
        return f"connects to {rule.text}"
    return "connects to ANY public host (ports 80 and 443), and can send them all it is given"


def _program(written: str, working_dir: Path, owner: Owner) -> str:
    if written == ANY_PROGRAM:
        return "runs any program of the system, and any other that it sees"
    if not is_program_path(written):
        return f"runs {written}"
    try:
        first, *others = locate(written, working_dir, owner).judged
    except NotAcceptedError:
        return f"runs {written}"  # starting the module is refused, with the reason
    text = f"runs {'every program in ' if first.is_directory else ''}{written}"
    if str(first.path) != written:
        text += f", which is {first.path}"
    return f"{text}, with {', '.join(str(one.path) for one in others)}" if others else text


def _path(written: str, working_dir: Path, owner: Owner, family: str) -> str:
    try:
        path = GrantedPath.resolve(written, working_dir, owner).path
    except NotAcceptedError:
        return written  # starting the module is refused, with the reason
    opened = what_writing_opens(path, working_dir, owner.home) if family == "write" else ""
    if path == working_dir:
        return f"the working directory, {path}{opened}"
    return f"{written if str(path) == written else f'{written}, which is {path}'}{opened}"


def what_writing_opens(path: Path, working_dir: Path, home: Path) -> str:
    """Describe what else a grant to write permits, where the user's own programs run what is there."""
    runner = runner_opened(path, working_dir, home)
    if runner == GIT_COMMAND:
        return f": it may commit, and {runner} there may run its code"
    return f": {runner} may run its code" if runner else ""


def _secret(secret: SecretGrant, granted: Permissions) -> str:
    if secret.inject is None:
        return f"is given the value of {secret.name}"
    try:
        place = granted.place_of_injection(secret).text
    except NotAcceptedError:
        place = secret.inject
    return f"has {secret.name} sent to {place} for it, and never sees it"


def brought_by_bundles(plan: MountPlan) -> Iterator[str]:
    """Yield what of a plan's instruction and agents is a bundle's, a line for each file."""
    if plan.bundles is None:
        return
    files = Counter(plan.positions.place_of(path_text("agents", name)).file for name in plan.agents)
    for name, file in plan.bundles.sources:
        agents = f"{files[file]} agent{'s' * (files[file] > 1)}" if files[file] else ""
        instruction = "the instruction" if file == plan.bundles.instruction_of else ""
        if brought := " and ".join(filter(None, (instruction, agents))):
            yield f"bundle {name} brings {brought}: {file}"
