"""Ask the questions of `init`, one after the other, while nothing else runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import anyio
import click

from paddock.cli.init.catalogue import FOLDER_PREFIX, not_usable
from paddock.cli.terminal.line_input import Keyboard
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError, render
from paddock.plan.model import Kind
from paddock.text import escape

_Answer = TypeVar("_Answer")


def ask(screen: Screen, prompt: str, default: str, understood: Callable[[str], _Answer]) -> _Answer:
    """Return the interpreted answer; if `understood` raises a `PaddockError`, the question is asked again.

    Raises:
        click.Abort: the person has left.
    """
    while True:
        typed = _typed(f"{prompt} [{default}]: " if default else f"{prompt}: ").strip() or default
        try:
            return understood(typed)
        except PaddockError as error:
            screen.text(render(error))


def offer(screen: Screen, title: str, choices: Sequence[tuple[str, str]], kind: Kind) -> None:
    """List modules of a kind to choose from, each with its purpose, numbered from 1, and say how to name others."""
    screen.title(title)
    rows = [f"{name}: {purpose}" if purpose else name for name, purpose in choices]
    screen.labelled([(f"  {number}) ", row) for number, row in enumerate(rows, start=1)])
    screen.note(f"or other code: ./{FOLDER_PREFIX}{kind}-…, git+https://…, or a package of the index as name==1.0")


def confirm(screen: Screen, prompt: str, *, default: bool) -> bool:
    """Return whether the answer is yes.

    Raises:
        click.Abort: the person has left.
    """
    while True:
        match _typed(f"{prompt} [{'Y/n' if default else 'y/N'}]: ").strip().lower():
            case "":
                return default
            case "y" | "yes":
                return True
            case "n" | "no":
                return False
        screen.note("type y or n, then Enter")


def numbered(typed: str, names: Sequence[str]) -> str:
    """Return the one of `names` with the typed number, counted from 1, or else the typed text.

    Raises:
        KindError: it is the number of none of them.
    """
    if not (names and typed.isascii() and typed.isdigit()):
        return typed
    if not 1 <= int(typed[:6]) <= len(names):
        raise not_usable(f"there is no number {typed}", f"type one from 1 to {len(names)}, or a name")
    return names[int(typed[:6]) - 1]


def _typed(prompt: str) -> str:
    """Write a prompt to stderr and return the line that is typed, without its end."""
    sys.stderr.write(escape(prompt))
    sys.stderr.flush()
    line = anyio.run(Keyboard(sys.stdin).line)
    if line is None:
        sys.stderr.write("\n")
        raise click.Abort
    return line
