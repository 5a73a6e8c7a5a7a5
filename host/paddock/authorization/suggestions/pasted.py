"""What a line to paste may grant: the one place of these rules, for denials, `why`, `add`, warnings and the network.

A person pastes such a line without weighing each word in it, and a module or its manifest may have chosen the words. So
it gives no key but by `inject`; the host of a key comes from the table of known services, by the variable's name alone.
Where it adds a key, it adds no host but that one, and where it adds a host, no variable that may hold a key. It opens
neither all public hosts nor what the user's own programs run. What is left out is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from paddock.plan.net_rule import PUBLIC, TO_FILL_IN, NetRule
from paddock.plan.permissions import (
    FAMILIES,
    Permissions,
    SecretGrant,
    added_grants,
    by_preset,
    grants_of,
    redacted_permissions_line,
    united,
)
from paddock.plan.secret_references import references
from paddock.policy.guarded_places import runner_by_name

_SETTINGS: Final = frozenset({"EDITOR", "LANG", "LC_ALL", "NO_COLOR", "TERM", "TZ", "VISUAL"})
"""Variables whose values may go to any host: any other may hold a password, and its name need not say so."""


def pasted(
    has: Permissions, asked: Permissions, may_write: Callable[[str], bool] = lambda path: True
) -> tuple[Permissions, tuple[str, ...]]:
    """Return what is granted, by its preset, with what a line may add of what is `asked`, and the rest in words.

    `may_write` says whether a line may open a path to write that somebody else named.
    """
    had, wanted = grants_of(has), grants_of(asked)
    keys = tuple(filter(None, (one if one in had.secrets else _for_its_host(one) for one in wanted.secrets)))
    names = {one.name for one in (*had.secrets, *keys)}
    places = tuple(one.inject for one in keys if one not in had.secrets and one.inject is not None)

    adds_host = bool(places) or any(one not in had.net for one in wanted.net)

    def may_add(family: str, grant: str) -> bool:
        match family:
            case "net":
                return grant != PUBLIC and (not places or _host(grant) in map(_host, places))
            case "env":
                name, is_set, value = grant.partition("=")
                is_harmless = name in _SETTINGS if adds_host else not _is_credential(name)
                return all(one.name in names for one in references(value)) and bool(is_set or is_harmless)
            case "write":
                return may_write(grant)
        return True

    added = {
        family: tuple(one for one in getattr(wanted, family) if one in getattr(had, family) or may_add(family, one))
        for family in FAMILIES
        if family != "secrets"
    }
    added["net"] = tuple(dict.fromkeys((*added["net"], *places)))
    lacks = (one.name for one in wanted.secrets if one.name not in names)
    left = [f"the value of {name}" for name in lacks]
    left += [
        f"{family} {one.partition('=')[0]}"
        for family, kept in added.items()
        for one in getattr(wanted, family)
        if one not in kept
    ]
    line = united((had, Permissions().model_copy(update={**added, "secrets": keys})))
    is_all = not any((*added_grants(line, asked), *added_grants(asked, line))) and {*line.read} == {*wanted.read}
    return (asked if is_all else by_preset(line, (has.preset,))), tuple(left)  # a preset as it was written


def line_for(has: Permissions, family: str, *grants: str) -> str:
    """Return the line of a plan that adds grants of one family; empty if none can say them, or may."""
    try:
        known = Permissions.model_validate({family: [one for one in grants if one != TO_FILL_IN]})
    except ValidationError:
        return ""  # a module chooses names, and a line that people copy may only contain valid ones
    line, left = pasted(has, known.model_copy(update={family: grants}))
    return "" if left else redacted_permissions_line(line)


def merged(lines: Sequence[Permissions]) -> tuple[Permissions, tuple[str, ...]]:
    """Return what lines of one entry may grant together, each of which has all that the entry grants, and the rest.

    A place that the user's own programs run is opened by a line of its own.
    """
    presets = [line.preset for line in lines]
    first, *others = map(grants_of, lines)
    common = {
        family: tuple(one for one in getattr(first, family) if all(one in getattr(other, family) for other in others))
        for family in FAMILIES
    }

    def may_write(path: str) -> bool:
        return not (others and any(map(runner_by_name, (Path(path), *Path(path).parents))))

    line, left = pasted(Permissions().model_copy(update=common), united(lines), may_write)
    return by_preset(line, presets), left


def _is_credential(name: str) -> bool:
    from paddock.authorization.suggestions.service_needs import is_credential  # each session loads this file

    return is_credential(name)


def _host(written: str) -> str:
    return written if written == TO_FILL_IN else NetRule.parse(written).text


def _for_its_host(secret: SecretGrant) -> SecretGrant | None:
    """Return a key for the host of its known service, or for one that a person has to fill in; None without either."""
    if secret.inject == TO_FILL_IN:
        return secret
    from paddock.authorization.suggestions.vendors import vendor_of_key  # as above

    vendor = vendor_of_key(secret.name)
    if vendor is None:
        return None
    place = vendor.destination  # never one of this machine that somebody else names: anybody may listen there
    return SecretGrant(name=secret.name, inject=place.text if place is not None else TO_FILL_IN)
