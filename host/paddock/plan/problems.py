"""Put the problems of a plan into words.

Validation libraries report in their own vocabulary. Here their findings become `PlanProblem`s that name the place as
the plan spells it (`tools[1].limits.memory_max`) and the values that would be accepted. This file knows no keys of any
plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from paddock.errors import PlanProblem
from paddock_sources.similar_names import meant

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)

_WANTED = {
    "string_type": "text",
    "dict_type": "a table",
    "model_type": "a table",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "int_type": "a whole number",
}


class StrictModel(BaseModel):
    """Content of a file or a process: exactly the keys and types it names, in values that do not change.

    Its validator is built when the first value is read: most commands use few of the models.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class NotAcceptedError(ValueError):
    """Raised by the reader of a single value: `problem` is what is wrong with it, `accepted` names accepted values."""

    def __init__(self, problem: str, accepted: str = "") -> None:
        self.problem = problem
        self.accepted = accepted
        super().__init__(f"{problem}; {accepted}" if accepted else problem)


class YamlError(ValueError):
    """Raised for a text that is no YAML, or content that is not accepted: `problem` on `line`, and the fix: `hint`."""

    def __init__(self, problem: str, hint: str = "", line: int | None = None) -> None:
        self.problem = problem
        self.hint = hint
        self.line = line
        super().__init__(problem)


def path_text(*parts: str | int) -> str:
    """Return the spelling of a place in a plan: `tools[1].config["a key"]`."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not text or _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def type_text(value: object) -> str:
    """Return the kind of a plan's value, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if isinstance(value, (list, tuple)) else f"a {type(value).__name__}"


def must_be(wanted: str, value: object, path: str, hint: str = "") -> PlanProblem:
    """Return the problem of a value of the wrong type."""
    return PlanProblem(path, f"must be {wanted}, is {type_text(value)}", hint)


def unknown_key(key: str, known: Iterable[str], path: str) -> PlanProblem:
    """Return the problem of an unknown key at `path`; its hint is the known key it resembles."""
    hint = meant(key, known, f"known here: {', '.join(known)}", is_vocabulary=True)
    return PlanProblem(path, f"unknown key `{key}`", hint, at=path_text(path, key))


def problems_of(
    error: ValidationError, path: str, known: Mapping[str, tuple[str, ...]], renamed: Mapping[str, str]
) -> list[PlanProblem]:
    """Return the findings of a validation of the table at `path`.

    `known` contains the keys accepted in the table (under ``""``) and in the tables below it (under their own key);
    `renamed` contains the places of keys that the plan has elsewhere.
    """
    found: list[PlanProblem] = []
    for item in error.errors(include_url=False):
        location = item["loc"]
        match item["type"]:
            case "extra_forbidden":
                *above, key = location
                names = [part for part in above if isinstance(part, str)]
                here = known[names[-1] if names else ""]
                problem = unknown_key(str(key), here, _place(path, above, renamed))
                below = next((one for one in here if key in known.get(one, ())), None)
                found.append(replace(problem, hint=f"it belongs under `{below}`") if below is not None else problem)
            case "missing":
                found.append(PlanProblem(_place(path, location[:-1], renamed), f"`{location[-1]}` is missing"))
            case _:
                found.append(_value_problem(item, _place(path, location, renamed)))
    return found


def _value_problem(item: Any, path: str) -> PlanProblem:
    kind = item["type"]
    if kind == "value_error":
        cause = item["ctx"]["error"]
        if isinstance(cause, NotAcceptedError):
            return PlanProblem(path, cause.problem, cause.accepted)
    if kind == "literal_error":
        return PlanProblem(path, f"must be one of {item['ctx']['expected']}")
    if kind in _WANTED:
        value = item["input"]
        is_yes_or_no = kind == "string_type" and isinstance(value, bool)  # as of a rule that denies, which says why
        return must_be(_WANTED[kind], value, path, 'write text, as in "not on this machine"' if is_yes_or_no else "")
    return PlanProblem(path, str(item["msg"]))


def _place(path: str, location: Iterable[str | int], renamed: Mapping[str, str]) -> str:
    parts = list(location)
    if parts and isinstance(parts[0], str) and parts[0] in renamed:
        return path_text(renamed[parts[0]], *parts[1:])
    return path_text(path, *parts)
