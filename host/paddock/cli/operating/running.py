"""The sessions that run, as a table: a title and a row for each module, of two looks at them.

Rates need two looks; a session or module that the first one lacks has none. Nothing here is escaped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from paddock.control.sessions import Place, Seen, seen
from paddock.control.status import ModuleRow
from paddock.errors import KindError
from paddock.plan.units import size_text

SHORT: Final = 8  # characters of an id: enough to tell two sessions apart by eye
SHORTEST: Final = 4  # that may stand for it
TITLES: Final = ("MODULE", "STATE", "PID", "CPU%", "MEM/MAX", "TASKS", "CALLS", "/S", "Q", "RST", "LAST")
NOTHING_RUNS: Final = "no session runs that this user may see"


@dataclass(frozen=True, slots=True)
class Module:
    """One module with its rates: percent of a processor, and calls a second."""

    row: ModuleRow
    cpu_percent: float | None = None
    calls_per_second: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row, as in `TITLES`."""
        row = self.row
        state = row.state if row.call_seconds is None else f"{row.state} {_short(row.call_seconds)}"
        last = (f"{row.call}" if row.state == "blocked" else "", row.last_denial, row.last_end)
        return (
            row.module,
            state,
            _count(row.pid),
            _count(None if self.cpu_percent is None else round(self.cpu_percent)),
            _of(_size(row.memory_bytes), _size(row.memory_max)),
            _of(_count(row.tasks), _count(row.tasks_max)),
            _count(row.calls),
            _count(None if self.calls_per_second is None else round(self.calls_per_second)),
            _count(row.queued),
            _count(row.restarts),
            "; ".join(filter(None, last)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {**self.row.model_dump(), "cpu_percent": self.cpu_percent, "calls_per_second": self.calls_per_second}


@dataclass(frozen=True, slots=True)
class Session:
    """One session, with its modules in the plan's order."""

    seen: Seen
    modules: tuple[Module, ...]

    @property
    def title(self) -> str:
        """What people read above its modules."""
        status = self.seen.status
        turn = "" if not status.turn else f", turn {status.turn}"
        if status.turn_seconds is not None:
            turn += f" for {_short(status.turn_seconds)}"
        levels = ", ".join(sorted({module.row.level for module in self.modules}))
        uid = self.seen.place.uid  # of the socket's owner: what the session says of itself may be a lie
        whose = "" if uid == os.geteuid() else f", uid {uid}"
        plan = "no plan file" if status.plan is None else os.path.basename(status.plan)
        return f"session {status.session[:SHORT]}, host {status.pid}{whose}, {plan}{turn}, isolation: {levels}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            **self.seen.status.model_dump(),
            "uid": self.seen.place.uid,
            "modules": [module.as_dict() for module in self.modules],
        }


@dataclass(slots=True)
class Running:
    """Looks at all sessions that run."""

    silent: list[str] = field(default_factory=list)
    _before: Mapping[tuple[Place, str], tuple[float, ModuleRow]] = field(default_factory=dict)

    def look(self) -> list[Session]:
        """Return them, with rates since the last look; `silent` are those that gave no answer, for people."""
        found, self.silent = seen(os.environ)
        sessions, now = [], {}
        for one in found:
            modules = []
            for row in one.status.modules:
                modules.append(self._rated(one, row))
                now[one.place, row.module] = (one.status.at, row)
            sessions.append(Session(one, tuple(modules)))
        self._before = now
        return sessions

    def _rated(self, one: Seen, row: ModuleRow) -> Module:
        at, before = self._before.get((one.place, row.module), (one.status.at, row))
        seconds = one.status.at - at
        if seconds <= 0:
            return Module(row)
        used = max(0.0, row.cpu_seconds - before.cpu_seconds)
        return Module(row, 100 * used / seconds, max(0, row.calls - before.calls) / seconds)


def looked_twice(apart: float) -> tuple[list[Session], list[str]]:
    """Return the sessions that run, with rates over so many seconds, and what is silent."""
    running = Running()
    if running.look():
        time.sleep(apart)
    return running.look(), running.silent


ORDERS: Final[Mapping[str, Callable[[Module], Any]]] = {
    "c": lambda module: -(module.cpu_percent or 0),
    "m": lambda module: -(module.row.memory_bytes or 0),
    "n": lambda module: module.row.module,
}
"""How modules can be sorted, by the key that a person presses: by processor time, memory, name."""


def of_session(sessions: Sequence[Seen], asked: str | None) -> list[Seen]:
    """Return the sessions that an id, or the beginning of one, means; all where nothing is asked for.

    Raises:
        KindError: there is none, or it means several.
    """
    if asked is None:
        return list(sessions)
    meant = [one for one in sessions if one.status.session == asked]
    if not meant and len(asked) >= SHORTEST:
        meant = [one for one in sessions if one.status.session.startswith(asked)]
    if len(meant) == 1:
        return meant
    found = "more than one session runs" if meant else "no session runs"
    hints = [f"`paddock ps` shows what runs; {SHORTEST} characters of an id stand for it"]
    raise KindError("UnknownSessionError", f"{found} whose id begins with `{asked:.200}`", hints=hints)


def ids(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Complete the id of a session that runs."""
    return [one.status.session for one in seen(os.environ)[0] if one.status.session.startswith(typed)]


def names(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Complete the name of a module that runs."""
    found = {row.module for one in seen(os.environ)[0] for row in one.status.modules}
    return sorted(name for name in found if name.startswith(typed))


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _size(value: int | None) -> str:
    return "-" if value is None else size_text(value).replace(" ", "").replace("iB", "")


def _of(used: str, most: str) -> str:
    return used if most == "-" else f"{used}/{most}"


def _short(seconds: float) -> str:
    return f"{seconds:.0f}s" if seconds < 600 else f"{seconds / 60:.0f}min"
