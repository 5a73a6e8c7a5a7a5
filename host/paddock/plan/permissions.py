"""What a plan grants to one module: the grammar of each family is checked here, its meaning belongs to the policy.

A grant is text that is exactly one of the accepted forms; `*` stands for everything in `run`, `call`, `emit` and
`hooks` only. A preset's name stands for one table of grants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator

from paddock.plan.host_name import split_port
from paddock.plan.net_rule import NetRule
from paddock.plan.problems import NotAcceptedError, StrictModel, type_text

Preset = Literal["isolated", "workspace-read", "workspace", "shell"]

_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CALL = re.compile(r"\*|providers|context|spawn|tools(?::[^\s:]+)?")
MOUNTED_BY_GRANT: Final = ("providers", "orchestrator", "context")
"""The mount points that carry authority, and which a module of another kind takes a grant for."""
_ONLY_HOST = "host"  # in `inject`, in place of the name of the only one that `net` has


def _listed(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return tuple(value)
    if isinstance(value, str):
        raise NotAcceptedError("must be a list, is text", f'write ["{value}"]')
    raise NotAcceptedError(f"must be a list, is {type_text(value)}")


def _each(check: Callable[[str], None]) -> AfterValidator:
    def checked(values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if not value.strip():
                raise NotAcceptedError("holds an empty grant")
            if not value.isprintable():
                raise NotAcceptedError(f"`{value}` has an unprintable character")
            check(value)
        return values

    return AfterValidator(checked)


def _check_path(value: str) -> None:
    if value == "*":
        raise NotAcceptedError("`*` is not a path", "name the folders; `/` is all of them")


def _check_net(value: str) -> None:
    NetRule.parse(value)


def _check_env(value: str) -> None:
    if not _VARIABLE.fullmatch(value.partition("=")[0]):
        accepted = "env takes `NAME` or `NAME=VALUE`; `${SECRET}` in the value stands for a secret"
        raise NotAcceptedError(f"`{value}` is not understood", accepted)


def _check_run(value: str) -> None:
    if value != "*" and "/" not in value and (" " in value or value in (".", "..", "~")):
        accepted = "run takes names such as `git`, paths such as `./gradlew` or `.venv/bin/`, or `*`"
        raise NotAcceptedError(f"`{value}` is not the name of a program", accepted)


def is_program_path(value: str) -> bool:
    """Return whether a `run` grant is a path and not a name."""
    return "/" in value


def _check_call(value: str) -> None:
    if not _CALL.fullmatch(value):
        accepted = "call takes `tools`, `tools:<name>`, `providers`, `context`, `spawn` or `*`"
        raise NotAcceptedError(f"`{value}` is not understood", accepted)


def check_mount(value: str) -> None:
    """Do nothing for a mount point that can be granted.

    Raises:
        NotAcceptedError: it is another, which every module may mount at or none.
    """
    if value not in MOUNTED_BY_GRANT:
        accepted = "mount takes `providers`, `orchestrator` or `context`; new names at `tools` need no grant"
        raise NotAcceptedError(f"`{value}` is not understood", accepted)


def _check_glob(value: str) -> None:
    if any(char.isspace() for char in value):
        raise NotAcceptedError(f"`{value}` has a space in it", "an event's name or pattern, as in `tool:*`")


_Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]


def _one_host(value: str | None) -> str | None:
    if value is not None and value != _ONLY_HOST and NetRule.parse(value).destination is None:
        raise NotAcceptedError(f"`{value}` is more than one host", "a secret is used at one: write its name")
    return value


class SecretGrant(StrictModel):
    """A secret by name; with `inject`, its value stays in the host and the module only sees a placeholder.

    `inject` is where the host puts the value in its place: a host as in `net`, or the word `host` for the only one
    that `net` has.
    """

    name: str
    inject: Annotated[str | None, AfterValidator(_one_host)] = None


def _secret(value: object) -> object:
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, (Mapping, SecretGrant)):
        raise NotAcceptedError(f"must be a name or a table, is {type_text(value)}")
    return value


def _named(secret: SecretGrant) -> SecretGrant:
    if not _VARIABLE.fullmatch(secret.name):
        raise NotAcceptedError(f"`{secret.name}` is not the name of an environment variable")
    return secret


_Secret = Annotated[SecretGrant, BeforeValidator(_secret), AfterValidator(_named)]


class Permissions(StrictModel):
    """Either a `preset` and nothing else, or grants by family; no family granted is the default."""

    preset: Preset | None = None
    read: Annotated[_Texts, _each(_check_path)] = ()
    write: Annotated[_Texts, _each(_check_path)] = ()
    net: Annotated[_Texts, _each(_check_net)] = ()
    env: Annotated[_Texts, _each(_check_env)] = ()
    secrets: Annotated[tuple[_Secret, ...], BeforeValidator(_listed)] = ()
    run: Annotated[_Texts, _each(_check_run)] = ()
    call: Annotated[_Texts, _each(_check_call)] = ()
    emit: Annotated[_Texts, _each(_check_glob)] = ()
    hooks: Annotated[_Texts, _each(_check_glob)] = ()
    mount: Annotated[_Texts, _each(check_mount)] = ()

    @staticmethod
    def written(value: object) -> object:
        """Return what to validate for a value that a person wrote: the name of a preset becomes the grant of it."""
        if isinstance(value, str):
            if value not in get_args(Preset):
                raise NotAcceptedError(f"`{value}` is not a preset", f"presets: {', '.join(get_args(Preset))}")
            return Permissions.model_validate({"preset": value})
        if isinstance(value, Mapping) and "preset" in value:
            names = ", ".join(get_args(Preset))
            raise NotAcceptedError("a preset stands alone", f"write permissions: <preset>, which is one of {names}")
        return Permissions() if value is None else value

    def as_written(self) -> str | dict[str, Any]:
        """Return what a person would write for it: the name of a preset, or the families that there are."""
        if self.preset is not None:
            return self.preset
        table = self.model_dump(exclude_defaults=True, mode="json")
        if self.secrets:
            table["secrets"] = [
                one.name if one.inject is None else {"name": one.name, "inject": one.inject} for one in self.secrets
            ]
        return table

    def secret(self, name: str) -> SecretGrant | None:
        """Return the grant of the secret `name`, if there is one."""
        return next((grant for grant in self.secrets if grant.name == name), None)

    def place_of_injection(self, secret: SecretGrant) -> NetRule:
        """Return the one destination that a secret with `inject` is used at.

        Raises:
            NotAcceptedError: `net` does not allow it, or what is written leaves open which it is.
        """
        rules = dict.fromkeys(map(NetRule.parse, self.net))
        if secret.inject is None or secret.inject == _ONLY_HOST:
            return _only(secret, [*rules])
        place = NetRule.parse(secret.inject)
        # A port that is not written is that of the grant, so that a host of another port is not written twice.
        at_host = [rule for rule in rules if rule.hosts == place.hosts]
        if split_port(secret.inject)[1] is None and len(at_host) == 1:
            return at_host[0]
        if not any(rule.covers(place) for rule in rules):
            raise NotAcceptedError(
                f"secret `{secret.name}` is to be used at `{place.text}`, where no `net` grant lets the module connect",
                f'grant it as well: net: ["{place.text}"]',
            )
        return place


def _only(secret: SecretGrant, rules: Sequence[NetRule]) -> NetRule:
    if len(rules) == 1 and rules[0].destination is not None:
        return rules[0]
    found = "several" if len(rules) > 1 else "a whole range of them" if rules else "none"
    raise NotAcceptedError(
        f"`inject: {_ONLY_HOST}` of secret `{secret.name}` means the only host of `net`, and that has {found}",
        f"name the host, which `net` has to grant: {{name: {secret.name}, inject: api.example.org}}",
    )


@cache
def preset_grants() -> Mapping[Preset, Permissions]:
    """Return what each preset stands for; made when the first is asked for, as its model builds its validator then."""
    return MappingProxyType(
        {
            "isolated": Permissions(),
            "workspace-read": Permissions(read=(".",)),
            "workspace": Permissions(read=(".",), write=(".",)),
            "shell": Permissions(read=(".",), write=(".",), run=("*",)),
        }
    )


def grants_of(permissions: Permissions) -> Permissions:
    """Return what is granted family by family, with a preset replaced by what it stands for."""
    return permissions if permissions.preset is None else preset_grants()[permissions.preset]


def with_grant(permissions: Permissions, family: str, grant: str) -> Permissions:
    """Return permissions, family by family, with one grant more."""
    table = grants_of(permissions).model_dump(exclude_defaults=True, mode="json")
    return Permissions.model_validate({**table, family: [*table.get(family, ()), grant]})


def redacted_permissions_line(permissions: Permissions) -> str:
    """Return permissions as one line of a plan that others get to read: what variables are set to is left out."""
    granted = grants_of(permissions)
    parts = (variable.partition("=") for variable in granted.env)
    env = tuple(f"{name}=…" if is_set else name for name, is_set, _ in parts)
    return permissions_line(granted.model_copy(update={"env": env}))


def permissions_line(permissions: Permissions) -> str:
    """Return permissions as one line of a plan."""
    written = permissions.as_written()
    assert not isinstance(written, str), "of a preset a line says what it stands for"
    families = (f"{family}: {json.dumps(grants, ensure_ascii=False)}" for family, grants in written.items())
    return f"permissions: {{{', '.join(families)}}}"
