"""Read what a person or a program hands over on stdin."""

from __future__ import annotations

import sys

import click

from paddock.cli.terminal.render import Screen


def read_stdin(screen: Screen, what: str) -> str:
    """Return all of stdin as text.

    Raises:
        click.UsageError: it is not UTF-8.
    """
    if sys.stdin.isatty():
        screen.note(f"reading {what} from the terminal; Ctrl-D ends it")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{what} on stdin is not UTF-8 text, at byte {error.start}") from error
