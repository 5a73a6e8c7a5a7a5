"""The limits that a plan sets for one module, parsed into plain numbers. None: the plan sets none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Final

from pydantic import BeforeValidator

from paddock.plan.problems import NotAcceptedError, StrictModel
from paddock.plan.units import parse_count, parse_duration, parse_percentage, parse_size, size_text
from paddock_sdk.protocol import MAX_FRAME_BYTES

_MIN_FRAME_BYTES: Final = 64 * 1024  # with less, a module could hardly describe its objects


def _unless_absent(parse: Callable[[object], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: None if value is None else parse(value))


def _parse_frame(value: object) -> int:
    size = parse_size(value)
    if not _MIN_FRAME_BYTES <= size <= MAX_FRAME_BYTES:
        raise NotAcceptedError(f"`{value}` cannot be the size of a frame", "a frame has at least 64K and at most 16M")
    return size


def limit_text(name: str, value: float | None) -> str:
    """Return the value of a limit for people; no limit is `unlimited`."""
    if value is None or value == math.inf:
        return "unlimited"
    if name in _SIZES:
        return size_text(int(value))
    if name in _DURATIONS:
        return f"{value:g} s"
    return f"{value * 100:g}%" if name == "cpu_quota" else f"{value:.0f}"


def limit_written(name: str, value: float) -> str:
    """Return the value of a limit as a plan writes it."""
    if name in _DURATIONS:
        return f"{_plain(value)}s"
    if name == "cpu_quota":
        return f"{_plain(value * 100)}%"
    if name not in _SIZES:
        return limit_text(name, value)
    size = int(value)
    return next((f"{size // factor}{unit}" for unit, factor in _UNITS if size % factor == 0), str(size))


def raised_limit_line(name: str, reached: float) -> str:
    """Return the line of a plan that Paddock proposes when a limit was reached: it allows twice as much.

    It is empty where a plan cannot allow more.
    """
    raised = min(2 * reached, _MOST.get(name, math.inf))
    return f"limits: {{{name}: {limit_written(name, raised)}}}" if raised > reached else ""


def limit_option_in_line(line: str) -> str | None:
    """Return the option of `paddock call` for such a line; None for another line."""
    found = _LINE.fullmatch(line)
    return None if found is None else f"--limit {found[1]}={found[2]}"


def _plain(value: float) -> str:
    """Return a number without an exponent, which no plan takes."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


_UNITS: Final = (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))
_SIZES: Final = frozenset({"memory_max", "file_size_max", "tmp_max", "output_max", "frame_max"})
_LINE: Final = re.compile(r"limits: \{(\w+): ([\w.]+%?)\}")
_MOST: Final = {"frame_max": MAX_FRAME_BYTES}
_DURATIONS: Final = frozenset({"runtime_max", "start_max"})

_Size = Annotated[int | None, _unless_absent(parse_size)]
_Frame = Annotated[int | None, _unless_absent(_parse_frame)]
_Share = Annotated[float | None, _unless_absent(parse_percentage)]
_Count = Annotated[int | None, _unless_absent(parse_count)]
_Duration = Annotated[float | None, _unless_absent(parse_duration)]


class Limits(StrictModel):
    """Sizes are bytes, durations seconds, `cpu_quota` a fraction of one CPU.

    `output_max` bounds the output captured from a module during one call, `frame_max` one message from it, and
    `calls_max` how many of its requests may wait for an answer.
    """

    memory_max: _Size = None
    cpu_quota: _Share = None
    tasks_max: _Count = None
    open_files_max: _Count = None
    file_size_max: _Size = None
    tmp_max: _Size = None
    runtime_max: _Duration = None
    start_max: _Duration = None
    output_max: _Size = None
    frame_max: _Frame = None
    calls_max: _Count = None
