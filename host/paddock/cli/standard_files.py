"""Open the standard streams so that each command finds all three, and none loses output without a word.

A descriptor that a caller closed is opened on `/dev/null`, or the next file of the command would get its number: stdin
is then empty, and stdout refuses what is written to it. A refused write to stdout is raised and remembered; where a
drawing screen passes over it, the end of the command still reports it. A reader of stdout that has left is no refusal:
it raises `BrokenPipeError`. What stderr takes no more, for either reason, is left out, since there is no place to
report that: the command goes on, and ends with its own exit code.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputRefusedError(OSError):
    """Raised when stdout takes no more."""


class StandardOutput(io.FileIO):
    """The descriptor of stdout; `refusal` is why it took no more."""

    refusal: OutputRefusedError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as `FileIO` does."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.refusal = OutputRefusedError(error.errno, error.strerror)
            raise self.refusal from error

    def give_up(self) -> None:
        """Lead all that is still to be written into nothing, so that the interpreter's own last flush succeeds."""
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.fileno())
        os.close(nothing)


class _StandardError(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:  # also of a reader that has left: a last flush that fails would make the exit code 120
            return memoryview(data).nbytes


def open_standard_files() -> StandardOutput:
    """Put the three streams in their places in `sys`, and return the descriptor of stdout."""
    is_given = [_is_open(number) for number in range(3)]
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        if not is_given[number]:
            _put(os.open(os.devnull, flags), number)
    if sys.stdin is None or not is_given[0]:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    output = StandardOutput(1, "w", closefd=False)
    if sys.stdout is sys.__stdout__:  # a caller within this process may have its own
        if sys.stdout is not None:
            with suppress(OSError):  # what imports printed, if anything
                sys.stdout.flush()
        sys.stdout = _text(output, sys.stdout, line_buffering=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_StandardError(2, "w", closefd=False), sys.stderr, line_buffering=True)
    return output


def _text(file: io.FileIO, before: TextIO | None, *, line_buffering: bool) -> io.TextIOWrapper:
    encoding = before.encoding if before is not None else None
    # A module's answer may contain characters that no encoder writes; they are shown as escapes.
    return io.TextIOWrapper(
        io.BufferedWriter(file), encoding=encoding, errors="backslashreplace", line_buffering=line_buffering
    )


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _put(opened: int, number: int) -> None:
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)
