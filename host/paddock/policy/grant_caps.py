"""The most that a rule lets modules be granted, as a policy file states it: by family, or a preset for all of them.

It reads like the permissions of a plan, and also accepts patterns with `*` where those take names only: a cap bounds
what may be asked for. A family that is not named is not capped; a family that is named and empty permits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from paddock.plan.families import Family
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import FAMILIES, ByFamily, Permissions, SecretGrant, grants_of, listed, secret_table
from paddock.plan.problems import NotAcceptedError

AS_GRANTED: Final = "host"
"""Stands for any host to inject at."""

_NAME: Final = re.compile(r"[A-Za-z_*][\w*]*", re.ASCII)


def _known_host(value: str | None) -> str | None:
    if value is not None and value != AS_GRANTED:
        NetRule.parse(value)
    return value


class SecretCap(SecretGrant):
    """Secrets by name or pattern; with `inject`, only for the host to use, at that host or (`host`) any granted one."""

    inject: Annotated[str | None, AfterValidator(_known_host)] = None


def _named(secret: SecretCap) -> SecretCap:
    if not _NAME.fullmatch(secret.name):
        raise NotAcceptedError(f"`{secret.name}` is neither a name nor a pattern of names")
    return secret


_Secret = Annotated[SecretCap, BeforeValidator(secret_table), AfterValidator(_named)]


class GrantCaps(ByFamily):
    """The grants that a rule permits; `capped` are the families that it bounds."""

    secrets: Annotated[tuple[_Secret, ...], BeforeValidator(listed)] = ()

    @classmethod
    def checks(cls, family: Family) -> Callable[[str], object]:
        """Return what raises `NotAcceptedError` for text that is no cap on a family."""
        return family.check_cap or family.check

    @staticmethod
    def written(value: object) -> object:
        """Return the value to validate for one that a person wrote: a preset's name is a cap on every family."""
        if not isinstance(value, str):
            return value
        granted = grants_of(Permissions.parse(value))
        caps = {family: getattr(granted, family) for family in FAMILIES}
        return GrantCaps.model_validate(caps | {"read": granted.read_paths})

    @property
    def capped(self) -> frozenset[str]:
        """The families in which only the written grants are permitted."""
        return frozenset(self.model_fields_set)

    def texts(self, family: str) -> tuple[str, ...]:
        """Return a family's cap as written."""
        if family == "secrets":
            return tuple(one.name + (f" (inject {one.inject})" if one.inject else "") for one in self.secrets)
        texts: tuple[str, ...] = getattr(self, family)
        return texts
