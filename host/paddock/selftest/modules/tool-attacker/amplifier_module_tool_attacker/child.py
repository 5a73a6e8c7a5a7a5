"""Do something in a child process: because it may end the caller, or because it needs a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence

from .way import RefusedActError


def started(act: Callable[[], object]) -> int:
    """Do something in a forked child, and return its number; the child ends with it."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return child


def end_all(children: Sequence[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to children, and return when all have ended; some may have been ended and waited for before."""
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)
    for child in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def in_a_child(act: Callable[[], object]) -> str:
    """Return what `act` obtained in a forked child.

    Raises:
        OSError: `act` raised it there, or no child could be made.
        RefusedError: a signal ended it; the signal's name is the word.
    """
    return _forked(lambda output: os.write(output, str(act()).encode()))[1]


def executed(program: str | int, argv: Sequence[str], *, by: Callable[..., object] = os.execve) -> tuple[int, str]:
    """Run a program, a path or a descriptor, in an empty environment; return its exit code and what it printed.

    Raises:
        OSError: the program did not start.
        RefusedError: a signal ended it.
    """

    def replaced(output: int) -> None:
        os.dup2(output, 1)
        by(program, list(argv), {})

    return _forked(replaced)


def _forked(act: Callable[[int], object]) -> tuple[int, str]:
    """Return the exit code of a child, and the text that `act` wrote there to the descriptor that it was given."""
    refused, refusing = os.pipe()
    printed, printing = os.pipe()

    def tried() -> None:
        try:
            act(printing)
        except OSError as error:
            os.write(refusing, str(error.errno).encode())

    child = started(tried)
    for end in (refusing, printing):
        os.close(end)
    with os.fdopen(refused, "rb") as refusal, os.fdopen(printed, "rb") as output:
        number, text = refusal.read(), output.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        raise RefusedActError(signal.Signals(-code).name, "ended the process that tried")
    if number:
        raise OSError(int(number), os.strerror(int(number)))
    return code, text.decode(errors="replace")
