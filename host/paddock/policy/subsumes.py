"""Whether what is granted lies within what may be granted, family by family.

Answers yes only where it is certain: everything the grant stands for is something the cap stands for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, SecretGrant
from paddock.plan.problems import NotAcceptedError
from paddock.policy.grant_caps import AS_GRANTED, SecretCap
from paddock.policy.owner import Owner
from paddock.policy.path_walk import PathWalk

_SPECIAL: Final = frozenset("*?[")


def covers_text(caps: Iterable[str], granted: str) -> bool:
    """Whether one of these patterns stands for all that a name or pattern stands for."""
    return any(_covers(cap, granted) for cap in caps)


def covers_call(caps: Iterable[str], granted: str) -> bool:
    """Whether a `call` grant is within caps: `tools` is every tool."""
    return any(
        cap in ("*", granted) or (granted.startswith("tools:") and (cap == "tools" or _covers(cap, granted)))
        for cap in caps
    )


def covers_env(caps: Iterable[str], granted: str) -> bool:
    """Whether a variable, or one with its value, is within caps: a name is that variable with any value."""
    name = granted.partition("=")[0]
    return any(cap == granted if "=" in cap else _covers(cap, name) for cap in caps)


def covers_net(caps: Iterable[str], granted: str) -> bool:
    """Whether a `net` grant is within one of these."""
    rule = NetRule.parse(granted)
    return any(NetRule.parse(cap).covers(rule) for cap in caps)


def covers_secret(caps: Iterable[SecretCap], granted: SecretGrant, permissions: Permissions) -> bool:
    """Whether a secret may be granted as it is: injected is within a cap of the value itself, not the other way."""
    return any(_covers(cap.name, granted.name) and _is_used_within(cap, granted, permissions) for cap in caps)


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

    Inside the working directory a cap means what stands there and not what a link there leads to: the links in it are
    those of whoever wrote the project.
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


def covers_path(roots: Iterable[Path], path: Path) -> bool:
    """Whether a path without links is one of these, or below one."""
    return any(path.is_relative_to(root) for root in roots)


def _covers(cap: str, granted: str) -> bool:
    if cap in ("*", granted):
        return True
    special = _SPECIAL.intersection(granted)
    if not special:
        return fnmatchcase(granted, cap)
    # A pattern is within a pattern if its own letters are: a star of the cap takes whatever the granted one's stands
    # for. Not so with classes and question marks, which stand for less than they are written with.
    return "[" not in special and not _SPECIAL.intersection(cap) - {"*"} and fnmatchcase(granted, cap)
