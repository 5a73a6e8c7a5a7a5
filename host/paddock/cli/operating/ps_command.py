"""Show the sessions that run, with what each module does and uses.

With `--json`: `{"sessions": [{"session", "plan", "folder", "pid", "uid", "version", "began", "at", "turn",
"turn_seconds", "lag_ms", "modules": [{"module", "kind", "level", "state", "call", "call_seconds", "pid", "cpu_percent",
"cpu_seconds", "memory_bytes", "memory_max", "tasks", "tasks_max", "calls", "calls_per_second", "queued", "restarts",
"printed_bytes", "last_denial", "last_end"}…]}…], "silent": [text…], "error"}`.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import example
from paddock.cli.operating.running import NOTHING_RUNS, TITLES, Session, looked_twice
from paddock.cli.terminal.render import Screen

_APART: Final = 0.25  # seconds between the two looks


@click.command(epilog=example("paddock ps"))
@options.JSON
def ps(as_json: bool) -> int:
    """Show the sessions that run, with what each module does and uses; root sees those of all users."""

    def work() -> CommandAnswer:
        sessions, silent = looked_twice(_APART)
        return CommandAnswer(
            {"sessions": [one.as_dict() for one in sessions], "silent": silent},
            lambda screen: _show(screen, sessions),
            notes=(*silent, *(() if sessions else (NOTHING_RUNS,))),
        )

    return CommandReport(Screen(sys.stderr), as_json, beside={"sessions": [], "silent": []}).answer(work)


def _show(screen: Screen, sessions: list[Session]) -> None:
    for session in sessions:
        screen.title(session.title)
        screen.listing([TITLES, *(module.cells for module in session.modules)])
