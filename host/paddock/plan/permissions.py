"""The permissions of a module: in plans, options, operator files, manifests and Paddock's proposals.

A preset's name stands for one table of grants. This file reads and writes grants, whose forms `paddock.plan.families`
has: as a table of a file, as words of a command line, and as one line of a plan. The policy decides what a grant means.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, field_validator

from paddock.plan.families import (
    EXCLUSION,
    VARIABLE,
    Family,
    is_exclusion,
)
from paddock.plan.families import FAMILIES as TABLE
from paddock.plan.host_name import split_port
from paddock.plan.net_rule import NetRule
from paddock.plan.problems import NotAcceptedError, StrictModel, type_text
from paddock_sources.manifest import permission_request
from paddock_sources.similar_names import meant

Preset = Literal["isolated", "workspace-read", "workspace", "shell"]
PRESETS: Final = get_args(Preset)

_ONLY_HOST = "host"  # in `inject`: the only host that `net` contains
_OWN_COMMA: Final = "\0"  # an argument of a program contains none
_PRESET_OF_LINE: Final = re.compile(rf"permissions: (?:\{{preset: )?({'|'.join(PRESETS)})(?=[,}}]|$)")
_FAMILY_OF_LINE: Final = re.compile(r"(?:permissions: \{|, )(\w+): ")


def listed(value: object) -> object:
    """Return a list from a file as a tuple.

    Raises:
        NotAcceptedError: it is no list.
    """
    if isinstance(value, (list, tuple)):
        return tuple(value)
    hint = f'write ["{value}"]' if isinstance(value, str) else ""
    raise NotAcceptedError(f"must be a list, is {type_text(value)}", hint)


Texts = Annotated[tuple[str, ...], BeforeValidator(listed)]


def _one_host(value: str | None) -> str | None:
    if value is not None and value != _ONLY_HOST and NetRule.parse(value).destination is None:
        raise NotAcceptedError(f"`{value}` is more than one host", "a secret is used at one: write its name")
    return value


class SecretGrant(StrictModel):
    """A secret by name; with `inject`, its value stays in the host and the module gets only a placeholder.

    `inject` is the destination at which the host inserts the value: a host as in `net`, or the word `host` for the only
    one in `net`.
    """

    name: str
    inject: Annotated[str | None, AfterValidator(_one_host)] = None


def secret_table(value: object) -> object:
    """Return a secret in a file as a table; a bare name is short for one."""
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, (Mapping, StrictModel)):
        raise NotAcceptedError(f"must be a name or a table, is {type_text(value)}")
    return value


def _named(secret: SecretGrant) -> SecretGrant:
    if not VARIABLE.fullmatch(secret.name):
        raise NotAcceptedError(f"`{secret.name}` is not the name of an environment variable")
    return secret


_Secret = Annotated[SecretGrant, BeforeValidator(secret_table), AfterValidator(_named)]


class ByFamily(StrictModel):
    """Texts by family, as a person writes them: grants, or caps on them. None of a family is the default."""

    read: Texts = ()
    write: Texts = ()
    net: Texts = ()
    env: Texts = ()
    secrets: Annotated[tuple[_Secret, ...], BeforeValidator(listed)] = ()
    run: Texts = ()
    call: Texts = ()
    emit: Texts = ()
    hooks: Texts = ()
    mount: Texts = ()

    @classmethod
    def checks(cls, family: Family) -> Callable[[str], object]:
        """Return what raises `NotAcceptedError` for text that is none of a family."""
        return family.check

    @field_validator(*(one for one in TABLE if one != "secrets"))
    @classmethod
    def _check_each(cls, values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        check = cls.checks(TABLE[info.field_name or ""])
        for value in values:
            if not value.strip():
                raise NotAcceptedError("holds an empty grant")
            if not value.isprintable():
                raise NotAcceptedError(f"`{value}` has an unprintable character")
            check(value)
        return values


FAMILIES: Final = tuple(ByFamily.model_fields)
"""The names of all families, in the order of a plan."""


class _WithPreset(StrictModel):
    """A table of which a preset's name may be the first part."""

    preset: Preset | None = None


class Permissions(ByFamily, _WithPreset):
    """Grants by family, beside those of a `preset`; no family granted is the default."""

    @classmethod
    def parse(cls, value: object) -> Permissions:
        """Return the permissions that a person wrote.

        Raises:
            ValueError: the value is neither the name of a preset nor a table of grants.
        """
        return cls.model_validate(cls.written(value))

    @staticmethod
    def written(value: object) -> object:
        """Return the value to validate for one that a person wrote: the name of a preset becomes its grant."""
        name = value.get("preset") if isinstance(value, Mapping) else value
        if isinstance(name, str) and name not in PRESETS:
            raise NotAcceptedError(f"`{name}` is not a preset", preset_hint(name))
        if isinstance(value, str):
            return Permissions.model_validate({"preset": value})
        if isinstance(value, (list, tuple)):
            only = value[0] if len(value) == 1 else None
            hint = f"write permissions: {only}" if only in PRESETS else "write a preset, or a table: {read: [.]}"
            raise NotAcceptedError("must be a preset or a table, is a list", hint)
        return Permissions() if value is None else value

    def as_written(self) -> str | dict[str, Any]:
        """Return the permissions as a person would write them: the name of a preset alone, or a table."""
        table = self.model_dump(exclude_defaults=True, mode="json")
        if self.secrets:
            table["secrets"] = [
                one.name if one.inject is None else {"name": one.name, "inject": one.inject} for one in self.secrets
            ]
        return table if self.preset is None or len(table) > 1 else self.preset

    @property
    def read_paths(self) -> tuple[str, ...]:
        """The paths that are granted under `read`, without what is excluded there."""
        return tuple(path for path in self.read if not is_exclusion(path))

    def secret(self, name: str) -> SecretGrant | None:
        """Return the grant of the secret `name`, if there is one."""
        return next((grant for grant in self.secrets if grant.name == name), None)

    def place_of_injection(self, secret: SecretGrant) -> NetRule:
        """Return the one destination at which a secret with `inject` is used.

        Raises:
            NotAcceptedError: `net` does not permit it, or the text does not determine which one it is.
        """
        rules = dict.fromkeys(rule for rule in map(NetRule.parse, self.net) if not rule.is_self)
        if secret.inject is None or secret.inject == _ONLY_HOST:
            return _only(secret, [*rules])
        place = NetRule.parse(secret.inject)
        # An unwritten port is that of the grant, so a host at another port need not be written twice.
        at_host = [rule for rule in rules if rule.hosts == place.hosts]
        if split_port(secret.inject)[1] is None and len(at_host) == 1:
            return at_host[0]
        if not any(rule.covers(place) for rule in rules):
            raise NotAcceptedError(
                f"secret `{secret.name}` is to be used at `{place.text}`, where no `net` grant lets the module connect",
                f'grant it as well: net: ["{place.text}"]',
            )
        return place


class OfPreset(Permissions):
    """By family, what an older meaning of a preset grants: nobody wrote it."""


def _only(secret: SecretGrant, rules: Sequence[NetRule]) -> NetRule:
    if len(rules) == 1 and rules[0].destination is not None:
        return rules[0]
    found = "several" if len(rules) > 1 else "a whole range of them" if rules else "none"
    raise NotAcceptedError(
        f"`inject: {_ONLY_HOST}` of secret `{secret.name}` means the only host of `net`, and that has {found}",
        f"name the host, which `net` has to grant: {{name: {secret.name}, inject: api.example.org}}",
    )


def preset_hint(written: str) -> str:
    """Return the preset that a name which is none resembles, or else all presets, as a hint."""
    return meant(written, PRESETS, f"presets: {', '.join(PRESETS)}", is_vocabulary=True)


@cache
def preset_grants(version: int | None = None) -> Mapping[Preset, Permissions]:
    """Return the grants of each preset; made on first use, since the model builds its validator then.

    They are those in this version of the presets, by default in the newest.
    """
    tables = {name: permission_request.preset_table(name, version) for name in PRESETS}
    return MappingProxyType({name: Permissions.model_validate(table) for name, table in tables.items()})


def grants_of(permissions: Permissions, version: int | None = None) -> Permissions:
    """Return the grants by family, with a preset replaced by its grants in this version, by default in the newest."""
    if permissions.preset is None:
        return permissions
    return united((preset_grants(version)[permissions.preset], permissions.model_copy(update={"preset": None})))


def as_accepted(permissions: Permissions, version: int) -> Permissions:
    """Return permissions that were accepted with presets of this version: without what their preset grants since.

    What it excludes since is excluded.
    """
    then, now = grants_of(permissions, version), grants_of(permissions)
    if not any(added_grants(then, now)):
        return permissions
    kept = {family: tuple(one for one in getattr(now, family) if one in getattr(then, family)) for family in FAMILIES}
    kept["read"] = tuple(one for one in now.read if one in then.read or is_exclusion(one))
    return OfPreset().model_copy(update=kept)


def united(several: Sequence[Permissions]) -> Permissions:
    """Return the grants of all of these by family, each once and the first ones first."""
    tables = tuple(map(grants_of, several))
    values = {
        family: tuple(dict.fromkeys(value for one in tables for value in getattr(one, family))) for family in FAMILIES
    }
    return Permissions().model_copy(update=values)


def by_preset(permissions: Permissions, names: Sequence[str | None]) -> Permissions:
    """Return grants as the largest of these presets that they contain, with the rest beside it; else by family."""
    whole = grants_of(permissions)
    for preset in reversed(PRESETS):
        granted = preset_grants()[preset]
        if preset in names and not any(added_grants(whole, granted)):
            beside: dict[str, tuple[object, ...]] = {}
            for family in FAMILIES:
                had = getattr(granted, family)
                beside[family] = tuple(one for one in getattr(whole, family) if one not in had)
            return Permissions(preset=preset).model_copy(update=beside)
    return whole


def with_grant(permissions: Permissions, family: str, grant: str) -> Permissions:
    """Return permissions with one more grant, by their preset if they have one."""
    more = united((permissions, Permissions.model_validate({family: [grant]})))
    return by_preset(more, (permissions.preset,))


def added_grants(before: Permissions, after: Permissions) -> Iterator[tuple[str, str]]:
    """Yield each grant of `after` that `before` lacks, with its family, as a word of a command line.

    What only `after` excludes is no grant.
    """
    had, has = grants_of(before), grants_of(after)
    for family in FAMILIES:
        for grant in getattr(has, family):
            if grant not in getattr(had, family) and not (family == "read" and is_exclusion(grant)):
                yield family, grant if isinstance(grant, str) else _secret_word(grant.name, grant.inject)


# -- as one line of a plan, and as words of a command line -----------------------------------


def redacted_permissions_line(permissions: Permissions) -> str:
    """Return permissions as one line of a plan for other readers, without the values of variables."""
    return permissions_line(permissions.model_copy(update={"env": tuple(map(without_value, permissions.env))}))


def without_value(variable: str) -> str:
    """Return a grant of `env` without its value; a reference to the secret of the same name is none."""
    name, is_set, value = variable.partition("=")
    return f"{name}=…" if is_set and value != f"${{{name}}}" else variable


def permissions_line(permissions: Permissions) -> str:
    """Return permissions as one line of a plan."""
    written = permissions.as_written()
    if isinstance(written, str):
        return f"permissions: {written}"
    preset = written.pop("preset", None)
    parts = [] if preset is None else [f"preset: {preset}"]
    parts += (f"{family}: {json.dumps(grants, ensure_ascii=False)}" for family, grants in written.items())
    return f"permissions: {{{', '.join(parts)}}}"


def permissions_in_line(line: str) -> Permissions | None:
    """Return the permissions in such a line; None if it is another line."""
    preset = _PRESET_OF_LINE.match(line)
    named = {} if preset is None else {"preset": preset[1]}
    try:
        table = {**named, **dict(_families_in_line(line))}
        return Permissions.model_validate(table) if table else None
    except ValueError:
        return None


def grants_in_line(line: str) -> Iterator[tuple[str, str]]:
    """Yield each grant of such a line, beside its preset, with its family, as a word of a command line."""
    for family, grants in _families_in_line(line):
        yield from (
            (family, one if isinstance(one, str) else _secret_word(one["name"], one.get("inject"))) for one in grants
        )


def _families_in_line(line: str) -> Iterator[tuple[str, list[Any]]]:
    preset = _PRESET_OF_LINE.match(line)
    at = 0 if preset is None else preset.end()
    while (family := _FAMILY_OF_LINE.match(line, at)) is not None:
        grants, at = json.JSONDecoder().raw_decode(line, family.end())
        yield family[1], grants


def grants_in_word(word: str) -> list[str]:
    """Return the grants of one family in a word of a command line; a comma separates two, and `,,` is a comma."""
    parts = word.replace(",,", _OWN_COMMA).split(",")
    return [part.replace(_OWN_COMMA, ",") for part in parts]


def secret_in_word(word: str) -> object:
    """Return a secret as a plan has it, for `NAME` or `NAME@HOST` in a word of a command line.

    No name of a variable has an `@` in it.
    """
    name, at, host = word.partition("@")
    return {"name": name, "inject": host} if at else name


def _secret_word(name: str, inject: str | None) -> str:
    return name if inject is None else f"{name}@{inject}"


def allow_option(family: str, grant: str) -> str:
    """Return the option of `paddock call` for a grant, as typed in a shell."""
    return shlex.quote(grant_option(family, grant))


def grant_option(family: str, grant: str) -> str:
    """Return the option for a grant, as the command gets it."""
    value = grant.replace(",", ",,")
    if family == "read" and is_exclusion(grant):
        return f"--deny-read={value.removeprefix(EXCLUSION)}"
    return f"--allow-{family}={value}"
