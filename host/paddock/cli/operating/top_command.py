"""Show the sessions that run, drawn again each second, until `q` is pressed.

It needs a terminal that can move its cursor; no colour carries a meaning. What does not fit is cut, and counted.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import example
from paddock.cli.operating.running import NOTHING_RUNS, ORDERS, TITLES, Running, Session
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.rows import cells, clip
from paddock.errors import KindError
from paddock.text import escape

_SECONDS: Final = 1.0  # between two drawings
_KEYS: Final = "c: by processor  m: by memory  n: by name  q: quit"
_RIGHT: Final = range(2, len(TITLES) - 1)  # columns of numbers
_NAME: Final = 20  # cells, at most


@click.command(epilog=example("paddock top"))
def top() -> int:
    """Show the sessions that run, again each second; c, m and n sort by processor, memory and name, q quits."""

    def work() -> CommandAnswer:
        screen = Screen(sys.stdout)
        if not (sys.stdin.isatty() and screen.can_move):
            hints = ["`paddock ps` prints the same once"]
            raise KindError("NoTerminalError", "`paddock top` needs a terminal that it can draw on", hints=hints)
        running, order = Running(), "c"
        with _keys_as_pressed() as keyboard:
            while True:
                screen.show_open(_frame(running.look(), order, screen.width, screen.height))
                is_pressed = bool(select.select([keyboard], [], [], _SECONDS)[0])
                key = os.read(keyboard, 1).decode(errors="replace") if is_pressed else order
                if key in ("q", ""):  # the end of input quits
                    return CommandAnswer({}, lambda shown: shown.note(""))
                order = key if key in ORDERS else order

    return CommandReport(Screen(sys.stderr), False).answer(work)


def _frame(sessions: Sequence[Session], order: str, width: int, height: int) -> list[str]:
    """Return rows for a screen, of at most so many cells and lines."""
    rows = [] if sessions else [NOTHING_RUNS]
    for session in sessions:
        sorted_modules = sorted(session.modules, key=ORDERS[order])
        rows += [session.title, *_table([TITLES, *(module.cells for module in sorted_modules)], width)]
    most = max(2, height - 3)
    if len(rows) > most:
        rows = [*rows[: most - 1], f"… {len(rows) - most + 1} more rows"]
    return [clip(escape(row), width) for row in (*rows, _KEYS)]


def _table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield rows in columns. Where the last column has no room, what it says comes below."""
    shown = [[clip(escape(row[0]), _NAME), *map(escape, row[1:])] for row in rows]
    wide = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    room = width - sum(wide[:-1]) - len(wide) + 1
    for row in shown:
        line = " ".join(
            " " * (size - cells(cell)) + cell if at in _RIGHT else cell + " " * (size - cells(cell))
            for at, (cell, size) in enumerate(zip(row[:-1], wide, strict=False))
        )
        if wide[-1] <= room or room >= _NAME * 2:
            yield f"{line} {row[-1]}"
        elif row is shown[0]:
            yield line
        else:
            yield line
            if row[-1]:
                yield f"  {row[-1]}"


@contextmanager
def _keys_as_pressed() -> Iterator[int]:
    """Have each key come when it is pressed, unechoed; the terminal is as before afterwards."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard, termios.TCSADRAIN)
    try:
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
