"""A command's input from stdin and its output to stdout, for programs and people.

A module's text is masked for both, and escaped for a terminal. There it is the last output of a command: no question
follows that it could imitate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import click

from paddock.cli.standard_files import OutputRefusedError
from paddock.cli.terminal.render import Screen
from paddock.text import escape


def read_stdin(screen: Screen, what: str, *, errors: Literal["strict", "replace"] = "strict") -> str:
    """Return all of stdin as text; bytes that are not UTF-8 are `errors`.

    Raises:
        click.UsageError: it cannot be read, or is not UTF-8 where that is an error.
    """
    if sys.stdin.isatty():
        screen.note(f"reading {what} from the terminal; Ctrl-D ends it")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig", errors)
    except OSError as error:
        raise click.UsageError(f"{what} cannot be read from stdin: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{what} on stdin is not UTF-8 text, at byte {error.start}") from error


@contextmanager
def reporting(screen: Screen, done: str) -> Iterator[None]:
    """Say on `screen` what was `done` where stdout takes no report of it, which is written meanwhile.

    Raises:
        OSError: stdout took no more.
    """
    try:
        yield
        sys.stdout.flush()
    except OutputRefusedError:
        screen.ending(f"{done}; only the report of it could not be written")
        raise


def print_answer(text: str, mask: Callable[[str], str] = str) -> None:
    """Write `text`, with secrets hidden by `mask`, and a newline."""
    shown = mask(text)
    sys.stdout.write((escape(shown, multiline=True) if sys.stdout.isatty() else shown) + "\n")
    sys.stdout.flush()
