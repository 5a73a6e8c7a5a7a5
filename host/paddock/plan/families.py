"""The families of grants, a row each: how a grant of it is written and capped, what it means, and who sees its use.

A grant is text in exactly one of the forms that its family accepts; `*` stands for everything in `run`, `call`, `emit`
and `hooks` only. `paddock.plan.permissions` has a field for each family, and `isolation.denials.explain` an answer to
why a module may do something or not. What enforces a grant is not said here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Final, Literal

from paddock.plan.net_rule import SELF, NetRule
from paddock.plan.problems import NotAcceptedError
from paddock_sandbox.profile import ANY_PROGRAM

EXCLUSION: Final = "!"
"""The beginning of a word of `read` that grants nothing and excludes a path, or each file or folder of a name."""
EXCLUDED_SECRETS: Final = "!@secrets"
"""The word that excludes the files of `policy.exclusions.SECRETS`."""
MOUNTED_BY_GRANT: Final = ("providers", "orchestrator", "context")
"""The mount points with authority: a module of another kind needs a grant to mount there."""
VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""The name of a variable, or of a secret."""

_MOUNTS: Final = "mount takes `providers`, `orchestrator` or `context`; new names at `tools` need no grant"
_SPECIAL: Final = frozenset("*?[")


def is_exclusion(value: str) -> bool:
    """Return whether a word of `read` excludes something and grants nothing."""
    return value.startswith(EXCLUSION)


def is_program_path(value: str) -> bool:
    """Return whether a `run` grant is a path and not a name."""
    return "/" in value


def covers(family: str, caps: Iterable[str], granted: str) -> bool:
    """Whether one of these caps of a family covers everything that a grant of it stands for."""
    return any(FAMILIES[family].covers(cap, granted) for cap in caps)


# -- how grants are written -----------------------------------------------------------------


def _like(form: str, accepted: str) -> Callable[[str], object]:
    """Return a check that a text has a form, which `accepted` describes."""
    pattern = re.compile(form, re.DOTALL)

    def check(value: str) -> None:
        if not pattern.fullmatch(value):
            raise NotAcceptedError(f"`{value}` is not understood", accepted)

    return check


def _check_path(value: str) -> None:
    if value == "*":
        raise NotAcceptedError("`*` is not a path", "name the folders; `/` is all of them")


def _check_read(value: str) -> None:
    _check_path(value)
    name = value.removeprefix(EXCLUSION)
    if not is_exclusion(value) or value == EXCLUDED_SECRETS:
        return
    if not name.strip("*"):
        raise NotAcceptedError(f"`{value}` excludes everything", "leave out the grant that it is to exclude from")
    if ".." in name.split("/"):
        raise NotAcceptedError(f"`{value}` has `..` in it", "write the path that it stands for")
    if name.startswith("@"):
        raise NotAcceptedError(f"`{value}` is not known", f"`{EXCLUDED_SECRETS}`, or a file of that name: !./{name}")
    if "/" in name and "*" in name:
        raise NotAcceptedError(
            f"`{value}` has a star in a path", "write a name without a slash, or the path of a folder"
        )


def _check_write(value: str) -> None:
    _check_path(value)
    if is_exclusion(value):
        raise NotAcceptedError(f"`{value}` excludes nothing under `write`", f'exclude it from both: read: ["{value}"]')


def _check_run(value: str) -> None:
    if value != ANY_PROGRAM and "/" not in value and (" " in value or value in (".", "..", "~")):
        accepted = "run takes names such as `git`, paths such as `./gradlew` or `.venv/bin/`, or `*`"
        raise NotAcceptedError(f"`{value}` is not the name of a program", accepted)


def _check_event(value: str) -> None:
    if any(char.isspace() for char in value):
        raise NotAcceptedError(f"`{value}` has a space in it", "an event's name or pattern, as in `tool:*`")


# -- how caps are written, which also take patterns where grants take names only ---------------


def _check_folder(value: str) -> None:
    if is_exclusion(value):
        raise NotAcceptedError(
            f"`{value}` excludes something, which a cap cannot", "name the folders that may be granted"
        )
    if "*" in value:
        raise NotAcceptedError(
            f"`{value}` has a star in it", "a folder stands for all that is in it; `/` for everything"
        )


def _check_programs(value: str) -> None:
    if is_program_path(value):
        _check_folder(value)
    elif any(char.isspace() for char in value):
        accepted = "run takes names and patterns, as in `git*`, and paths, as in `./` or `~/.cargo/bin`"
        raise NotAcceptedError(f"`{value}` is not the name of a program", accepted)


# -- what a cap covers, and what a grant serves ------------------------------------------------


def _covers(cap: str, granted: str) -> bool:
    if cap in ("*", granted):
        return True
    special = _SPECIAL.intersection(granted)
    if not special:
        return fnmatchcase(granted, cap)
    # A pattern is covered if the cap matches its letters: a star of the cap covers anything that a star of the grant
    # stands for. Classes and question marks stand for less than their spelling, so they do not count.
    return "[" not in special and not _SPECIAL.intersection(cap) - {"*"} and fnmatchcase(granted, cap)


def _covers_call(cap: str, granted: str) -> bool:
    """Whether a cap covers a grant of `call`; `tools` means every tool."""
    return cap in ("*", granted) or (granted.startswith("tools:") and (cap == "tools" or _covers(cap, granted)))


def _covers_env(cap: str, granted: str) -> bool:
    """Whether a cap covers a variable, or one with its value; a name covers that variable with any value."""
    return cap == granted if "=" in cap else _covers(cap, granted.partition("=")[0])


def _matches(grant: str, target: str) -> bool:
    return fnmatchcase(target, grant)


# -- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Family:
    """One family of grants.

    `check` raises `NotAcceptedError` for text that is no grant, and `check_cap` for text that is no cap of a policy;
    `covers` says whether a cap covers a grant. For people: `takes` and `help` are those of its option of a command,
    `comment` explains it in a plan, `does` begins the line of a question about it, and `act` says what a module may do
    to a target by it. `seen_by` is who sees its use, nobody where it is empty, and `serves` says whether a grant served
    for a target. With `takes_trust`, a plan grants it only once it is accepted. `acts_outside` says whether a grant
    lets a module change something outside of a folder, for which its paths are those that links lead to, and no socket
    or device; where there is none, no grant does: programs have the other grants of their module, and modules their
    own.
    """

    check: Callable[[str], object]
    takes: str
    help: str
    act: str
    comment: str = ""
    does: str = ""
    check_cap: Callable[[str], object] | None = None
    covers: Callable[[str, str], bool] = _covers
    seen_by: Literal["host", "module", ""] = "host"
    serves: Callable[[str, str], bool] = str.__eq__
    takes_trust: bool = False
    acts_outside: Callable[[Any, Path], bool] | None = None


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "read": Family(
            _check_read,
            "PATH",
            "A folder or file that the module may read.",
            act="read",
            comment="files and folders that it may read; `.` is the folder it works in",
            does="reads",
            check_cap=_check_folder,
            seen_by="module",
        ),
        "write": Family(
            _check_write,
            "PATH",
            "A folder or file that it may read and change.",
            act="write to",
            comment="files and folders that it may read and change; they have to exist",
            does="writes",
            check_cap=_check_folder,
            seen_by="module",
            acts_outside=lambda grant, folder: not grant.path.is_relative_to(folder),
        ),
        "run": Family(
            _check_run,
            "PROGRAM",
            "A program that it may start; `*` is any program of the system and of granted folders.",
            act="run",
            comment="programs that it may start",
            check_cap=_check_programs,
            seen_by="module",
            serves=lambda grant, target: grant == ANY_PROGRAM or PurePath(grant).name == target,
        ),
        "env": Family(
            _like(
                r"[A-Za-z_][A-Za-z0-9_]*(=.*)?",
                "env takes `NAME` or `NAME=VALUE`; `${SECRET}` in the value stands for a secret",
            ),
            "NAME[=VALUE]",
            "An environment variable that it sees: your own, or one with this value.",
            act="see the variable",
            comment="variables that it finds in its environment",
            check_cap=_like(r"[A-Za-z_*][A-Za-z0-9_*]*(=.*)?", "env takes `NAME`, a pattern of names, or `NAME=VALUE`"),
            covers=_covers_env,
            seen_by="",
        ),
        "secrets": Family(
            str,  # the form of a secret is that of its own model
            "NAME[@HOST]",
            "A secret that --config may use as ${NAME}; with @HOST only requests to that host get its value.",
            act="use the secret",
            takes_trust=True,
            acts_outside=lambda grant, folder: True,
        ),
        "net": Family(
            NetRule.parse,
            "HOST[:PORT]",
            "A host that it may connect to, at port 443 unless you write another; `public` is any public host.",
            act="connect to",
            comment="where it may connect to, and nowhere else",
            covers=lambda cap, granted: NetRule.parse(cap).covers(NetRule.parse(granted)),
            takes_trust=True,
            acts_outside=lambda grant, folder: grant != SELF,
        ),
        "call": Family(
            _like(
                r"\*|providers|context|spawn|tools(?::[^\s:]+)?|state:[^\s:]+",
                "call takes `tools`, `tools:<name>`, `providers`, `context`, `spawn`, `state:<key>` or `*`",
            ),
            "WHAT",
            "What it may call by itself: tools, tools:<name>, providers, context, spawn, or `*`.",
            act="call",
            comment="what it may call without having been handed it",
            does="calls without being handed it",
            covers=_covers_call,
            serves=lambda grant, target: grant in ("*", target, target.partition(":")[0]),
            acts_outside=lambda grant, folder: grant in ("spawn", "*"),
        ),
        "emit": Family(
            _check_event,
            "EVENT",
            "An event that it may emit, beyond those of its kind.",
            act="emit",
            comment="events that it may emit beyond those of its kind",
            does="emits events",
            serves=_matches,
        ),
        "hooks": Family(
            _check_event,
            "EVENT",
            "An event that it may handle, beyond those of its kind.",
            act="handle",
            comment="events that it may handle",
            does="handles events",
            serves=_matches,
        ),
        "mount": Family(
            _like("|".join(MOUNTED_BY_GRANT), _MOUNTS),
            "POINT",
            "Where it may mount an object of another kind: providers, orchestrator or context.",
            act="mount at",
            comment="where it may mount what is of another kind, and so act as that",
            does="mounts, and so acts for the whole session",
            check_cap=_like("|".join((r"\*", *MOUNTED_BY_GRANT)), _MOUNTS),
            takes_trust=True,
        ),
    }
)
"""Each family by its name, in the order of the options."""
