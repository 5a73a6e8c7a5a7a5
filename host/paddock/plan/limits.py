"""The limits that a plan sets for one module, and its totals for all, as plain numbers. None: the plan sets none.

`LIMITS` has a row for each limit of a module: how it is enforced, and what its module is told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from paddock.plan.problems import NotAcceptedError, StrictModel
from paddock.plan.units import parse_count, parse_duration, parse_percentage, parse_size, size_text
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel
from paddock_sdk.protocol import MAX_FRAME_BYTES

_MIN_FRAME_BYTES: Final = 64 * 1024  # with less, a module could hardly describe its objects
_MIN_MEMORY_BYTES: Final = 8 << 20  # Python alone takes more than half of that
_MIN_OPEN_FILES: Final = 10  # with less, a worker does not come to its module
_LINE: Final = re.compile(r"limits: \{(\w+: [\w.]+%?(?:, \w+: [\w.]+%?)*)\}")


@dataclass(frozen=True, slots=True)
class _Unit:
    """How the value of a limit is read from a plan, shown to people, and written in a plan; a field's annotation."""

    parse: Callable[[object], float]
    show: Callable[[float], str]
    write: Callable[[float], str]
    most: float = math.inf
    least: float = 0

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(
            lambda value: None if value is None else self._parsed(value), handler(source)
        )

    def _parsed(self, value: object) -> float:
        parsed = self.parse(value)
        if parsed < self.least:
            raise NotAcceptedError(f"`{value}` is too little for a module", f"write {self.write(self.least)} or more")
        return parsed


def _parse_frame(value: object) -> int:
    size = parse_size(value)
    if not _MIN_FRAME_BYTES <= size <= MAX_FRAME_BYTES:
        raise NotAcceptedError(f"`{value}` cannot be the size of a frame", "a frame has at least 64K and at most 16M")
    return size


def _size_written(value: float) -> str:
    size = int(value)
    return next((f"{size // factor}{letter}" for letter, factor in _FACTORS if size % factor == 0), str(size))


def _size_shown(value: float) -> str:
    return size_text(int(value))


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _plain(value: float) -> str:
    """Return a number without an exponent, which no plan takes."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


_FACTORS: Final = (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))
_NUMBER: Final = _Unit(parse_count, _whole, _whole)

_Size = Annotated[int | None, _Unit(parse_size, _size_shown, _size_written)]
_Memory = Annotated[int | None, _Unit(parse_size, _size_shown, _size_written, least=_MIN_MEMORY_BYTES)]
_Files = Annotated[int | None, _Unit(parse_count, _whole, _whole, least=_MIN_OPEN_FILES)]
_Frame = Annotated[int | None, _Unit(_parse_frame, _size_shown, _size_written, MAX_FRAME_BYTES)]
_Share = Annotated[
    float | None, _Unit(parse_percentage, lambda value: f"{value * 100:g}%", lambda value: f"{_plain(value * 100)}%")
]
_Count = Annotated[int | None, _NUMBER]
_Duration = Annotated[
    float | None, _Unit(parse_duration, lambda value: f"{value:g} s", lambda value: f"{_plain(value)}s")
]
_OpenDuration = Annotated[
    float | None,
    _Unit(
        lambda value: math.inf if value == "none" else parse_duration(value),
        lambda value: f"{value:g} s",
        lambda value: "none" if value == math.inf else f"{_plain(value)}s",
    ),
]


class Limits(StrictModel):
    """Sizes are bytes, durations seconds, `cpu_quota` a fraction of one CPU; `call_max` may be infinite.

    `output_max` bounds the output captured from a module during one call, `frame_max` one message from it, and
    `calls_max` how many of its requests may wait for an answer.
    """

    memory_max: _Memory = None
    cpu_quota: _Share = None
    tasks_max: _Count = None
    open_files_max: _Files = None
    file_size_max: _Size = None
    tmp_max: _Size = None
    runtime_max: _Duration = None
    call_max: _OpenDuration = None
    start_max: _Duration = None
    output_max: _Size = None
    frame_max: _Frame = None
    calls_max: _Count = None


WITH_NAMESPACES: Final = frozenset[IsolationLevel]({"ns", "bwrap"})
"""The levels at which a module has namespaces of its own."""

Mechanism = Literal[
    "cgroup memory",
    "cgroup cpu",
    "cgroup pids",
    "RLIMIT_NOFILE",
    "RLIMIT_FSIZE",
    "RLIMIT_NPROC",
    "tmpfs size",
    "watchdog",
    "folder count",
    "host timer",
    "host count",
    "protocol",
]
"""What enforces a limit, or saw it reached. `folder count` is that of a home that is kept, which no tmpfs holds."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How one limit of a module is enforced.

    Best by a control group with a `controller`, whose mechanism is `grouped`; else by `mechanism` at `levels`, and by
    `elsewhere` at the others. Where nothing enforces it, `why` says why not, and `fix` what would help. For a limit at
    which a module goes on, `refused` says what it could not do, and `of_programs` whether its programs could not.
    """

    mechanism: Mechanism | Literal[""] = ""
    grouped: Mechanism | Literal[""] = ""
    levels: frozenset[IsolationLevel] = frozenset(ISOLATION_LEVELS)
    elsewhere: Mechanism | Literal[""] = ""
    why: str = ""
    fix: str = ""
    refused: str = ""
    of_programs: bool = False

    @property
    def controller(self) -> str:
        """The controller of control groups that enforces it; empty where none does."""
        return self.grouped.removeprefix("cgroup ")

    def mechanism_at(self, level: IsolationLevel) -> Mechanism | Literal[""]:
        """Return what enforces it at a level without a control group; empty where nothing does."""
        return self.mechanism if level in self.levels else self.elsewhere


def at_level(level: IsolationLevel) -> str:
    """Return what a person does to have a limit enforced that holds at a stronger level."""
    return f"run the module at isolation level `{level}`"


_ITSELF: Final = "a module without isolation does nothing to limit itself"
_CONFINED: Final = frozenset[IsolationLevel]({"ns", "bwrap", "landlock"})

LIMITS: Final[Mapping[str, Limit]] = MappingProxyType(
    {
        "memory_max": Limit(
            "watchdog",
            "cgroup memory",
            refused="its largest process was ended, so that the others have room",
            of_programs=True,
        ),
        "cpu_quota": Limit(
            grouped="cgroup cpu",
            why="it takes the cpu controller of control groups, and none can be made here",
            fix="have a group delegated, as `systemd-run --user --scope -p Delegate=yes` does (`paddock doctor` says "
            "more)",
        ),
        # An rlimit counts per user, and not at all for root: only where a worker's user is in a namespace of its own is
        # it its own.
        "tasks_max": Limit(
            "RLIMIT_NPROC",
            "cgroup pids",
            WITH_NAMESPACES,
            elsewhere="watchdog",
            refused="it could start no more processes and threads",
            of_programs=True,
        ),
        "open_files_max": Limit(
            "RLIMIT_NOFILE",
            levels=_CONFINED,
            why=_ITSELF,
            fix=at_level("landlock"),
            refused="it could open no more files and sockets at a time",
        ),
        "file_size_max": Limit(
            "RLIMIT_FSIZE",
            levels=_CONFINED,
            why=_ITSELF,
            fix=at_level("landlock"),
            refused="a file that it wrote grew no further",
        ),
        "tmp_max": Limit(
            "tmpfs size",
            levels=WITH_NAMESPACES,
            why="its private folder is an ordinary one of the host's",
            fix=at_level("ns"),
            refused="its private folder, with its temporary files, is full",
        ),
        "runtime_max": Limit("host timer"),
        "call_max": Limit("host timer"),
        "start_max": Limit("host timer"),
        "output_max": Limit("host count"),
        "frame_max": Limit("protocol"),
        "calls_max": Limit("protocol"),
    }
)
"""Each limit by its name."""


class Totals(StrictModel):
    """What all modules of a session, or all sessions of a user, may have at once: bytes; processes and threads."""

    memory_total: _Memory = None
    tasks_total: _Count = None


@dataclass(frozen=True, slots=True)
class Total:
    """One total in effect: of a session, or of its user; `raised` says how a person allows more."""

    name: str
    most: int
    raised: str
    is_of_user: bool = False


def limit_text(name: str, value: float | None) -> str:
    """Return the value of a limit for people; no limit is `unlimited`."""
    return "unlimited" if value is None or value == math.inf else _unit_of(name).show(value)


def limit_written(name: str, value: float) -> str:
    """Return the value of a limit as a plan writes it."""
    return _unit_of(name).write(value)


def raised_limit_line(name: str, reached: float, written: Limits | Totals | None = None) -> str:
    """Return the line of a plan that Paddock proposes when a limit was reached: it allows twice as much.

    It has the other limits that the entry has `written`. It is empty where a plan cannot allow more.
    """
    unit = _unit_of(name)
    raised = max(min(2 * reached, unit.most), unit.least)
    if raised <= reached:
        return ""
    values = {**{key: value for key, value in written or () if value is not None}, name: raised}
    return f"limits: {{{', '.join(f'{key}: {limit_written(key, value)}' for key, value in values.items())}}}"


def limit_option_in_line(line: str, name: str) -> str | None:
    """Return the option of `paddock call` for one limit of such a line; None for another line."""
    found = _LINE.fullmatch(line)
    values = dict(one.split(": ") for one in found[1].split(", ")) if found is not None else {}
    return f"--limit {name}={values[name]}" if name in values else None


def _unit_of(name: str) -> _Unit:
    """Return the unit of a limit or a total; what else the host bounds, such as record locks, it counts."""
    field = Limits.model_fields.get(name) or Totals.model_fields.get(name)
    return _NUMBER if field is None else next(one for one in field.metadata if isinstance(one, _Unit))
