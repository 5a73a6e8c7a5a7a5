"""Show a person how modules are sandboxed, before the first of them is started: the level, and the grants.

The missing protections of a level weaker than the usual ones are shown once, also where the plan was accepted. The
absence of any isolation is shown as an alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paddock.authorization.open_web import reaches_the_web
from paddock.cli.terminal.render import Screen
from paddock.isolation.compile import Confinement
from paddock.isolation.levels import guarantees_missing
from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, SecretGrant, grants_of
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel

_ANY_HOST: Final = "it connects to ANY public host (ports 80 and 443)"

Confined = Sequence[tuple[ModuleEntry, Confinement]]


def tell_confinements(screen: Screen, confined: Confined, *, verbose: bool = False) -> None:
    """Write the notes about these modules: with `verbose` every grant, else only the missing protections."""
    for level in ISOLATION_LEVELS:
        names = [entry.module for entry, confinement in confined if confinement.profile.level == level]
        if names:
            _tell_what_is_missing(screen, level, names)
    if verbose:
        screen.labelled(
            [
                (f"{entry.module}  ", line)
                for entry, confinement in confined
                for line in [*confinement.lines(), *_other_grants(entry)] or ["nothing is granted"]
            ]
        )
    else:
        for entry, confinement in confined:
            for remark in confinement.remarks():
                screen.warning(f"{entry.module}: {remark}")
            if reaches_the_web(entry.permissions):
                screen.warning(f"{entry.module}: net public: {_ANY_HOST}")


def levels_of(confined: Confined) -> str:
    """Return what is said of the isolation of modules that are about to start; empty if there are none."""
    levels = sorted({confinement.profile.level for _, confinement in confined})
    return f"isolation: {', '.join(levels)}" if levels else ""


def _tell_what_is_missing(screen: Screen, level: IsolationLevel, names: Sequence[str]) -> None:
    missing = guarantees_missing(level)
    if not missing:
        return
    if level == "none":
        screen.alarm(f"NO ISOLATION, level none: {', '.join(names)}")
    else:
        screen.warning(f"weaker isolation, level {level}: {', '.join(names)}; not given:")
    screen.points(missing)


def _other_grants(entry: ModuleEntry) -> Iterator[str]:
    """Yield the grants of other things than files and programs; for variables and secrets only the names."""
    granted = grants_of(entry.permissions)
    rules = map(NetRule.parse, granted.net)
    yield from (f"net {rule.text}: {_ANY_HOST}" if rule.is_public else f"net {rule.text}" for rule in rules)
    yield from (f"env {grant.partition('=')[0]}" for grant in granted.env)
    yield from (_secret(secret, granted) for secret in granted.secrets)
    for family in ("call", "emit", "hooks", "mount"):
        yield from (f"{family} {grant}" for grant in getattr(granted, family))


def _secret(secret: SecretGrant, granted: Permissions) -> str:
    if secret.inject is None:
        return f"secret {secret.name}"
    host = ", ".join(granted.net) if secret.inject == "host" else secret.inject
    return f"secret {secret.name}, injected for {host}: the module never has it"
