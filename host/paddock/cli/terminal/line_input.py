"""Read a person's input at a prompt, one line at a time, without ever losing a Ctrl-C.

For Paddock's own questions while nothing else runs. The prompt is written to stderr, and the terminal keeps its own
line editing.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import click

from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError, render
from paddock.text import escape

_LINE_BYTES: Final = 4096  # the longest line that a terminal delivers

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
    """Return the one of `names` with the typed number, counted from 1, or else the typed text."""
    if typed.isascii() and typed.isdigit() and 1 <= int(typed[:6]) <= len(names):
        return names[int(typed[:6]) - 1]
    return typed


def _typed(prompt: str) -> str:
    """Write a prompt and return the line that is typed, without its end."""
    sys.stderr.write(escape(prompt))
    sys.stderr.flush()
    terminal = sys.stdin.fileno()
    with _signals() as signals:
        # Reading would miss a signal that comes just before it, and wait for the next key.
        while terminal not in select.select([terminal, signals], [], [])[0]:
            signals.recv(_LINE_BYTES)  # its handler has run by now, and did not raise
    read = os.read(terminal, _LINE_BYTES)
    if not read:
        sys.stderr.write("\n")
        raise click.Abort
    return read.decode(errors="replace").rstrip("\n")


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """Make each signal readable from a descriptor."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(before)
