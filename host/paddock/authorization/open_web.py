"""Warn of a plan in which one module may connect to every public host: it can send out all that any module reads.

No module need be malicious for that: a model reads with one module and posts with another, and a page that it reads may
ask it to. So the warning is about the plan; each entry by itself may look harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, grants_of

_HAVE_THE_CONVERSATION: Final = frozenset({"orchestrator", "context", "provider", "hook"})
_CALLS_THAT_SHOW_IT: Final = frozenset({"*", "context"})
_MAX_NAMED: Final = 6


@dataclass(frozen=True, slots=True)
class GrantedModule:
    """A module by the name people use, its kind, and everything it would be granted."""

    name: str
    kind: str
    permissions: Permissions


def open_web_warnings(modules: Iterable[GrantedModule]) -> tuple[str, ...]:
    """Return the warnings about a plan before it is accepted; none where no module may connect everywhere."""
    modules = tuple(modules)
    senders = [one.name for one in modules if reaches_the_web(one.permissions)]
    if not senders:
        return ()
    readable = "; ".join(_readable(modules))
    warning = f"{_named(senders)} may connect to ANY public host, so what is read anywhere in this plan can leave"
    why = "a model reads with one module and posts with another, and a page that it reads may ask it to"
    return (f"{warning}: {readable}. {why[0].upper()}{why[1:]}.",)


def reaches_the_web(permissions: Permissions) -> bool:
    """Whether every public host is granted."""
    return any(NetRule.parse(written).is_public for written in grants_of(permissions).net)


def _readable(modules: tuple[GrantedModule, ...]) -> Iterator[str]:
    granted = [(one, grants_of(one.permissions)) for one in modules]
    files = [one.name for one, its in granted if its.read_paths or its.write]
    secrets = [
        one.name
        for one, its in granted
        if any(secret.inject is None for secret in its.secrets) or any("=" not in variable for variable in its.env)
    ]
    conversation = [
        one.name
        for one, its in granted
        if one.kind in _HAVE_THE_CONVERSATION or its.hooks or _CALLS_THAT_SHOW_IT.intersection(its.call)
    ]
    if files:
        yield f"files ({_named(files)})"
    if secrets:
        yield f"secrets and variables ({_named(secrets)})"
    yield f"the conversation ({_named(conversation)})" if conversation else "the conversation"


def _named(names: list[str]) -> str:
    shown = list(dict.fromkeys(names))
    rest = len(shown) - _MAX_NAMED
    return ", ".join(shown[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
