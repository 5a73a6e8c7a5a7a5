"""The limits that a plan sets for one module, parsed into plain numbers. None: the plan says nothing about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from .units import parse_count, parse_duration, parse_percentage, parse_size


def _unless_absent(parse: Callable[[object], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: None if value is None else parse(value))


_Size = Annotated[int | None, _unless_absent(parse_size)]
_Share = Annotated[float | None, _unless_absent(parse_percentage)]
_Count = Annotated[int | None, _unless_absent(parse_count)]
_Duration = Annotated[float | None, _unless_absent(parse_duration)]


class Limits(BaseModel):
    """Sizes are bytes, durations seconds, `cpu_quota` a fraction of one CPU."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    memory_max: _Size = None
    cpu_quota: _Share = None
    tasks_max: _Count = None
    open_files_max: _Count = None
    file_size_max: _Size = None
    tmp_max: _Size = None
    runtime_max: _Duration = None
    start_max: _Duration = None
    output_max: _Size = None
