"""What grants let a module do, in words for whoever is to accept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from paddock.plan.models import ModuleEntry
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, SecretGrant
from paddock.plan.problems import NotAcceptedError

from .asked_grant import AskedGrant, Given, grants_asked, union_of
from .granted_path import GrantedPath
from .owner import Owner

_VERBS: Final = {
    "read": "reads",
    "write": "writes",
    "call": "calls without being handed it",
    "emit": "emits events",
    "hooks": "handles events",
}


def grant_lines(
    entry: ModuleEntry, given: Iterable[Given], working_dir: Path, owner: Owner
) -> Iterator[tuple[AskedGrant, str]]:
    """Yield each grant that an entry states, then what was given besides, with a line that says what it means here."""
    besides = tuple(given)
    granted = union_of(entry, besides)
    for grant in grants_asked(entry, besides):
        yield grant, _line(grant, granted, working_dir, owner)


def _line(grant: AskedGrant, granted: Permissions, working_dir: Path, owner: Owner) -> str:
    value = grant.value
    if isinstance(value, SecretGrant):
        return _secret(value, granted)
    match grant.family:
        case "read" | "write":
            return f"{_VERBS[grant.family]} {_path(value, working_dir, owner)}"
        case "net":
            return f"connects to {NetRule.parse(value).text}"
        case "env":
            name, is_set, _ = value.partition("=")
            return f"has the variable {name} as the plan sets it" if is_set else f"is passed your variable {name}"
        case "run":
            return "runs any program of the system" if value == "*" else f"runs {value}"
    return f"{_VERBS[grant.family]}: {value}"


def _path(written: str, working_dir: Path, owner: Owner) -> str:
    try:
        path = GrantedPath.resolve(written, working_dir, owner).path
    except NotAcceptedError:
        return written  # refused when it comes to that, with the reason
    if path == working_dir:
        return f"the working directory, {path}"
    return written if str(path) == written else f"{written}, which is {path}"


def _secret(secret: SecretGrant, granted: Permissions) -> str:
    if secret.inject is None:
        return f"is given the value of {secret.name}"
    try:
        place = granted.place_of_injection(secret).text
    except NotAcceptedError:
        place = secret.inject
    return f"has {secret.name} sent to {place} for it, and never sees it"
