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


class Module(ModuleRow):
    """One module with its rates: percent of a processor, and calls a second."""

    cpu_percent: float | None = None
    calls_per_second: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row, as in `TITLES`."""
        last = (f"{self.call}" if self.state == "blocked" else "", self.last_denial, self.last_end)
        return (
            self.module,
            self.state if self.call_seconds is None else f"{self.state} {_short(self.call_seconds)}",
            _count(self.pid),
            _count(self.cpu_percent),
            _of(_size(self.memory_bytes), _size(self.memory_max)),
            _of(_count(self.tasks), _count(self.tasks_max)),
            _count(self.calls),
            _count(self.calls_per_second),
            _count(self.queued),
            _count(self.restarts),
            "; ".join(filter(None, last)),
        )


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
        levels = ", ".join(sorted({module.level for module in self.modules}))
        uid = self.seen.place.uid  # of the socket's owner: what the session says of itself may be a lie
        whose = "" if uid == os.geteuid() else f", uid {uid}"
        plan = "no plan file" if status.plan is None else os.path.basename(status.plan)
        return f"session {status.session[:SHORT]}, host {status.pid}{whose}, {plan}{turn}, isolation: {levels}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            **self.seen.status.model_dump(),
            "uid": self.seen.place.uid,
            "modules": [module.model_dump() for module in self.modules],
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
                at, before = self._before.get((one.place, row.module), (one.status.at, row))
                rates = {}
                if (seconds := one.status.at - at) > 0:
                    rates["cpu_percent"] = 100 * max(0.0, row.cpu_seconds - before.cpu_seconds) / seconds
                    rates["calls_per_second"] = max(0, row.calls - before.calls) / seconds
                modules.append(Module.model_validate({**row.model_dump(), **rates}))
                now[one.place, row.module] = (one.status.at, row)
            sessions.append(Session(one, tuple(modules)))
        self._before = now
        return sessions


def looked_twice(apart: float) -> tuple[list[Session], list[str]]:
    """Return the sessions that run, with rates over so many seconds, and what is silent."""
    running = Running()
    if running.look():
        time.sleep(apart)
    return running.look(), running.silent


ORDERS: Final[Mapping[str, Callable[[Module], Any]]] = {
    "c": lambda module: -(module.cpu_percent or 0),
    "m": lambda module: -(module.memory_bytes or 0),
    "n": lambda module: module.module,
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


def _count(value: float | None) -> str:
    return "-" if value is None else str(round(value))


def _size(value: int | None) -> str:
    return "-" if value is None else size_text(value).replace(" ", "").replace("iB", "")


def _of(used: str, most: str) -> str:
    return used if most == "-" else f"{used}/{most}"


def _short(seconds: float) -> str:
    return f"{seconds:.0f}s" if seconds < 600 else f"{seconds / 60:.0f}min"
