"""Find, check and replace `${NAME}` in a module's configuration and in the values of its variables.

A reference is expanded for its own entry only, and only where that entry's `secrets` grant the name. A secret granted
with `inject` is replaced by a placeholder: the module has the placeholder, the host the value. `$${NAME}` is no
reference: it stands for the text `${NAME}`. Nothing here reads the process's own environment.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from paddock.errors import PlanProblem
from paddock.plan.permissions import Permissions
from paddock.plan.problems import path_text

# Also matches the shell's forms with a default, to report that plans do not support them.
_REFERENCE: Final = re.compile(r"(\$?)\$\{([A-Za-z_]\w*)(:[^}]*|[-+=?][^}]*)?\}", re.ASCII)
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reference:
    """One `${name}`: the place of the text that contains it, and its spelling."""

    place: str
    name: str
    written: str
    has_default: bool


def command_to_set(name: str) -> str:
    """Return a shell's command that takes a variable's value from the keyboard, unseen and kept in no history."""
    return f"read -rs {name} && export {name}"


def how_to_set(name: str) -> str:
    """Return what a person does about a secret that is not set."""
    return (
        f"set `{name}` first: `{command_to_set(name)}` takes it from the keyboard; or say under [{name}] in "
        "`secrets.toml` where it is (`paddock help secrets`)"
    )


def literal(text: str) -> str:
    """Return text of somebody else as a plan writes it, so that nothing in it is a reference."""
    return _REFERENCE.sub(r"$\g<0>", text)


def references(value: Any, path: str = "") -> Iterator[Reference]:
    """Yield the references in a configuration, or any part of one, that stands at `path`."""
    for place, text in _texts(value, path):
        for match in _REFERENCE.finditer(text):
            if not match[1]:
                yield Reference(place, match[2], match[0], match[3] is not None)


def variable_references(permissions: Permissions, path: str = "") -> Iterator[Reference]:
    """Yield the references in the values of granted variables; `path` is where the permissions stand."""
    for number, grant in enumerate(permissions.env):
        yield from references(grant.partition("=")[2], path_text(path, "env", number))


def malformed_references(config: Any, path: str) -> Iterator[PlanProblem]:
    """Yield a problem for every reference in `config`, at `path`, that no grant could make valid."""
    for one in references(config, path):
        if one.has_default:
            yield from reference_problems([one], Permissions(), ())


def names_referred_to(config: Any, permissions: Permissions) -> tuple[str, ...]:
    """Return the names that a configuration and the values of variables refer to, each once."""
    found = (*references(config), *variable_references(permissions))
    return tuple(dict.fromkeys(reference.name for reference in found))


def secrets_in_use(config: Any, permissions: Permissions) -> tuple[str, ...]:
    """Return the granted secrets whose values a module's start needs: those referred to, and those injected."""
    named = names_referred_to(config, permissions)
    return tuple(one.name for one in permissions.secrets if one.inject is not None or one.name in named)


def expanded(
    config: Any, permissions: Permissions, values: Mapping[str, str], placeholders: Mapping[str, str] = _NONE
) -> Any:
    """Return a copy of `config` with the granted references replaced by values; it must have no problems.

    Those that the host injects become placeholders; without a placeholder they stay references.
    """
    if isinstance(config, str):

        def value_of(match: re.Match[str]) -> str:
            grant = permissions.secret(match[2])
            if match[1]:
                return match[0].removeprefix("$")
            if grant is None or match[3] is not None:
                return match[0]
            return values[match[2]] if grant.inject is None else placeholders.get(match[2], match[0])

        return _REFERENCE.sub(value_of, config)
    if isinstance(config, Mapping):
        return {key: expanded(value, permissions, values, placeholders) for key, value in config.items()}
    if isinstance(config, list):
        return [expanded(value, permissions, values, placeholders) for value in config]
    return config


def reference_problems(
    found: Iterable[Reference], permissions: Permissions, known: Container[str]
) -> Iterator[PlanProblem]:
    """Yield a problem for every reference that cannot be resolved; `known` are the existing secrets."""
    for one in found:
        if one.has_default:
            yield PlanProblem(
                one.place, f"`{one.written}` has a default, which is not supported", f"write ${{{one.name}}}"
            )
        elif permissions.secret(one.name) is None:
            hint = f"grant it where the module is listed as a table: permissions: {{secrets: [{one.name}]}}"
            yield PlanProblem(one.place, f"`{one.written}` is a secret that this entry is not granted", hint)
        elif one.name not in known:
            yield PlanProblem(one.place, f"environment variable `{one.name}` is not set", how_to_set(one.name))


def _texts(config: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(config, str):
        yield path, config
    elif isinstance(config, Mapping):
        for key, value in config.items():
            yield from _texts(value, path_text(path, key))
    elif isinstance(config, list):
        for index, value in enumerate(config):
            yield from _texts(value, path_text(path, index))
