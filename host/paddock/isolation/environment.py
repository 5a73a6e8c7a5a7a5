"""The environment variables of a worker: a few that every program expects, and those granted by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from paddock.plan.permissions import Permissions, grants_of
from paddock.policy.programs import SEARCH_PATH
from paddock.policy.secrets.values import NO_SECRETS, SecretValues

# A repository may only be read unless it is granted by itself: git is to look at it without writing to it.
_GIT_THAT_READS: Final = {"GIT_OPTIONAL_LOCKS": "0"}
_PASSED_ON: Final = ("LANG", "LC_ALL", "TZ")  # language and time zone reveal nothing that answers do not


def environment_of(
    permissions: Permissions,
    host: Mapping[str, str],
    scratch: str,
    secrets: SecretValues = NO_SECRETS,
    *,
    home: str | None = None,
    folders: Iterable[str] = (),
) -> dict[str, str]:
    """Return the whole environment of a worker whose private folder is `scratch`, and its home too unless it has one.

    Programs are looked for in `folders` first. A grant `NAME` passes on the host's variable, if it has it; `NAME=VALUE`
    sets one, also in place of ours, with the granted ones of `secrets` for the references in it.
    """
    granted = grants_of(permissions)
    environ = {name: host[name] for name in _PASSED_ON if name in host}
    environ |= {
        "PATH": ":".join((*folders, *SEARCH_PATH)),
        "HOME": home or scratch,
        "TMPDIR": scratch,
        **_GIT_THAT_READS,
    }
    for grant in granted.env:
        name, is_set, value = grant.partition("=")
        if is_set:
            environ[name] = secrets.expanded(value, granted)
        elif name in host:
            environ[name] = host[name]
    return environ
