"""Find the tags of a repository that name a newer version than one of them does; other tags are no versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from packaging.version import Version

_TAG: Final = re.compile(r"(?P<before>[^0-9]*)(?P<version>[0-9][0-9A-Za-z.+-]*)")
_MAX_CHARACTERS: Final = 100


def newer_tags(tags: Mapping[str, str], ref: str, commit: str) -> tuple[str, ...]:
    """Return the tags with a newer version than `ref`, or than a tag at `commit`, the newest first.

    Only tags that begin as that one does are compared, and of versions before a release only where that one is such.
    """
    versions = {name: version for name in tags if (version := _version_of(name)) is not None}
    of_commit = [name for name, at in tags.items() if at == commit and name in versions]
    now = ref if ref in versions else max(of_commit, key=lambda name: versions[name][1], default=None)
    if now is None:
        return ()
    before, current = versions[now]
    newer = [
        name
        for name, (begins, version) in versions.items()
        if begins == before and version > current and (current.is_prerelease or not version.is_prerelease)
    ]
    return tuple(sorted(newer, key=lambda name: versions[name][1], reverse=True))


def _version_of(tag: str) -> tuple[str, Version] | None:
    from packaging.version import InvalidVersion, Version

    match = _TAG.fullmatch(tag) if len(tag) <= _MAX_CHARACTERS else None
    try:
        return None if match is None else (match["before"], Version(match["version"]))
    except InvalidVersion:
        return None
