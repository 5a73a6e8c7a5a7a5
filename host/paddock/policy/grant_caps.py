"""The most that a rule lets modules be granted, as a policy file states it: by family, or a preset for all of them.

It reads like the permissions of a plan, and also accepts patterns with `*` where those take names only: a cap bounds
what may be asked for. A family that is not named is not capped; a family that is named and empty permits nothing.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import (
    FAMILIES,
    Permissions,
    Texts,
    check_call,
    check_event,
    check_mount,
    check_net,
    each,
    grants_of,
    is_exclusion,
    is_program_path,
    listed,
    secret_table,
)
from paddock.plan.problems import NotAcceptedError, StrictModel

AS_GRANTED: Final = "host"
"""Stands for any host to inject at."""

_NAME: Final = re.compile(r"[A-Za-z_*][\w*]*", re.ASCII)


def _check_path(value: str) -> None:
    if is_exclusion(value):
        raise NotAcceptedError(
            f"`{value}` excludes something, which a cap cannot", "name the folders that may be granted"
        )
    if "*" in value:
        raise NotAcceptedError(
            f"`{value}` has a star in it", "a folder stands for all that is in it; `/` for everything"
        )


def _check_env(value: str) -> None:
    if not _NAME.fullmatch(value.partition("=")[0]):
        raise NotAcceptedError(f"`{value}` is not understood", "env takes `NAME`, a pattern of names, or `NAME=VALUE`")


def _check_run(value: str) -> None:
    if is_program_path(value):
        _check_path(value)
    elif any(char.isspace() for char in value):
        accepted = "run takes names and patterns, as in `git*`, and paths, as in `./` or `~/.cargo/bin`"
        raise NotAcceptedError(f"`{value}` is not the name of a program", accepted)


def _check_mount(value: str) -> None:
    if value != "*":
        check_mount(value)


def _known_host(value: str | None) -> str | None:
    if value is not None and value != AS_GRANTED:
        NetRule.parse(value)
    return value


class SecretCap(StrictModel):
    """Secrets by name or pattern; with `inject`, only for the host to use, at that host or (`host`) any granted one."""

    name: str
    inject: Annotated[str | None, AfterValidator(_known_host)] = None


def _named(secret: SecretCap) -> SecretCap:
    if not _NAME.fullmatch(secret.name):
        raise NotAcceptedError(f"`{secret.name}` is neither a name nor a pattern of names")
    return secret


_Secret = Annotated[SecretCap, BeforeValidator(secret_table), AfterValidator(_named)]


class GrantCaps(StrictModel):
    """The grants that a rule permits; `capped` are the families that it bounds."""

    read: Annotated[Texts, each(_check_path)] = ()
    write: Annotated[Texts, each(_check_path)] = ()
    net: Annotated[Texts, each(check_net)] = ()
    env: Annotated[Texts, each(_check_env)] = ()
    secrets: Annotated[tuple[_Secret, ...], BeforeValidator(listed)] = ()
    run: Annotated[Texts, each(_check_run)] = ()
    call: Annotated[Texts, each(check_call)] = ()
    emit: Annotated[Texts, each(check_event)] = ()
    hooks: Annotated[Texts, each(check_event)] = ()
    mount: Annotated[Texts, each(_check_mount)] = ()

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
