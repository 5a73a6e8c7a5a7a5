"""The options that stand for parts of a plan's entry, limits and grants, read into the plan's form.

Wrong spelling is a usage error. For problems found later, about places in an entry that no person wrote, the message
names the options instead.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NoReturn

import click
from pydantic import BaseModel, ValidationError

from paddock.errors import ModuleMissingError, PlanError, PlanProblem, PolicyRefusedError
from paddock.plan.families import EXCLUSION
from paddock.plan.limits import Limits
from paddock.plan.permissions import PRESETS, Permissions, grants_in_word, preset_hint, secret_in_word
from paddock.plan.problems import problems_of

_GRANT: Final = re.compile(r".*permissions: \{(\w+): \[([^\]]+)\]\}")  # a hint with a line of a plan
_SOURCE: Final = re.compile(r"name its source: `- module: ")
_PLACE: Final = re.compile(
    r"(?P<part>permissions|limits|config|isolation)(?:\.(?P<name>\w+)|(?P<index>\[.*))?(?P<rest>.*)", re.DOTALL
)


def read_object(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object in the text of `what`.

    Raises:
        click.UsageError: the text is no JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise click.UsageError(f"{what} is not JSON: {reason}; {_as_json(text)}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f'{what} has to be a JSON object, as in \'{{"name": "value"}}\'')
    return value


def _as_json(text: str) -> str:
    """Return how to write text that is no JSON: what was meant, if it reads as YAML or as `name=value`."""
    from yaml import safe_load  # for few calls

    with suppress(Exception):  # of the person's own text, which may be anything
        name, is_pair, value = text.partition("=")
        meant: object = {name: value} if is_pair and name.isidentifier() else safe_load(text)
        if isinstance(meant, dict):
            return f"write {shlex.quote(json.dumps(meant, default=str, allow_nan=False))}"
    return """write an object, as in '{"name": "value"}'"""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def read_limits(written: Sequence[str]) -> dict[str, object]:
    """Return the limits `K=V` in a plan's form.

    Raises:
        click.UsageError: one is not `K=V`, not known, or its value is not understood.
    """
    limits: dict[str, object] = {}
    for item in written:
        name, equals, value = item.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--limit takes K=V, as in runtime_max=30s; `{item}` is not that")
        limits[name] = value
    _check(Limits, limits, "--limit ")
    return limits


def read_grants(written: Mapping[str, Sequence[str]], excluded: Sequence[str] = ()) -> dict[str, object]:
    """Return the grants, by family, in a plan's form; a comma separates two, and `,,` is a comma.

    What is `excluded` from reading is a word of `read`.

    A secret `NAME@HOST` is one with `inject`.

    Raises:
        click.UsageError: one is not of the form that its family takes.
    """
    grants: dict[str, object] = {}
    named = (word.removeprefix(EXCLUSION) for option in excluded for word in grants_in_word(option))
    words = [f"{EXCLUSION}{word.replace(',', ',,')}" for word in named]
    for family, options in {**written, "read": (*written.get("read", ()), *words)}.items():
        if options:
            values = [value for option in options for value in grants_in_word(option)]
            grants[family] = [*map(secret_in_word, values)] if family == "secrets" else values
    _check(Permissions, grants, "--allow-")
    return grants


def read_presets(written: Sequence[str]) -> dict[str, str]:
    """Return the presets `MODULE=PRESET` by module; a comma separates two.

    Raises:
        click.UsageError: one is not `MODULE=PRESET`, the preset is unknown, or a module gets two.
    """
    presets: dict[str, str] = {}
    for item in (part.strip() for option in written for part in option.split(",")):
        module, equals, preset = (part.strip() for part in item.rpartition("="))
        if not (module and equals and preset):
            raise click.UsageError(f"--grant takes MODULE=PRESET, as in tool-bash=shell; `{item}` is not that")
        if preset not in PRESETS:
            raise click.UsageError(f"--grant {item}: there is no preset `{preset}`; {preset_hint(preset)}")
        if presets.setdefault(module, preset) != preset:
            raise click.UsageError(f"--grant gives {module} both {presets[module]} and {preset}")
    return presets


def retell(error: PlanError | PolicyRefusedError, subject: str = "the call") -> None:
    """Replace the names of plan places in an error about `subject` by the names of options."""
    if isinstance(error, PolicyRefusedError):
        error.retell(subject, _option_of)
    else:
        error.retell(subject, _reworded)


def retell_missing(error: ModuleMissingError, tool: str, hints: Sequence[str]) -> None:
    """Replace the line of a plan that would name a module's source by `hints`, or else by the call that names it."""
    words = f"`paddock call ./folder {shlex.quote(tool)}`, or an address (`git+https://…@ref`) in place of the folder"
    kept = tuple(hint for hint in error.hints if not _SOURCE.match(hint))
    own = [f"name its code: {words}"] if kept != error.hints else []
    error.hints = (*kept, *(hints or own))


def _reworded(problem: PlanProblem) -> PlanProblem:
    hint = _GRANT.sub(r"add `--allow-\1=\2`", problem.hint)
    return _of_exclusion(PlanProblem(_option_of(problem.path), problem.message, hint))


def _of_exclusion(problem: PlanProblem) -> PlanProblem:
    """Return a problem of a word that excludes something by the name of the option that takes it, without the mark."""
    if problem.path != "--allow-read" or not problem.message.startswith(f"`{EXCLUSION}"):
        return problem
    message, hint = problem.message.replace(EXCLUSION, "", 1), problem.hint.replace(EXCLUSION, "")
    return PlanProblem("--deny-read", message, hint)


def _option_of(place: str) -> str:
    match = _PLACE.fullmatch(place)
    if match is None:
        return place
    match match["part"], match["name"]:
        case "permissions", str(name):
            return f"--allow-{name}"
        case "limits", str(name):
            return f"--limit {name}"
        case part, name:
            inside = f"{name or match['index'] or ''}{match['rest']}"
            return f"--{part} {inside}".rstrip()


def _check(model: type[BaseModel], values: Mapping[str, Any], prefix: str) -> None:
    if not values:
        return  # as in most calls, for which no validator need be built
    try:
        model.model_validate(dict(values))
    except ValidationError as error:
        found = problems_of(error, "", {"": tuple(model.model_fields)}, {})
        named = [
            replace(one, path=f"{prefix}{one.path}") if one.path else replace(one, message=f"{prefix}{one.message}")
            for one in found
        ]
        problems = map(_of_exclusion, named)
        said = [f"{problem.describe()}{f' ({problem.hint})' if problem.hint else ''}" for problem in problems]
        raise click.UsageError("; ".join(said)) from error
