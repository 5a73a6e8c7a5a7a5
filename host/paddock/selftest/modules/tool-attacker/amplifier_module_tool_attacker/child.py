"""Do something in a child process: because it may end the caller, or because it needs a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Sequence

from .way import RefusedActError

_FINE = 0


def started(act: Callable[[], object]) -> int:
    """Do something in a forked child, and return its number; the child ends with it."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(_FINE)
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
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps([True, str(act())]).encode())
        except OSError as error:
            os.write(writer, json.dumps([False, error.errno]).encode())
        finally:
            os._exit(_FINE)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        raise RefusedActError(signal.Signals(-code).name, "ended the process that tried")
    if not answer:
        raise RuntimeError(f"the child ended with code {code} and no answer")
    worked, value = json.loads(answer)
    if not worked:
        raise OSError(value, os.strerror(value))
    return str(value)


def executed(program: str | int, argv: Sequence[str], *, by: Callable[..., object] = os.execve) -> tuple[int, str]:
    """Run a program, a path or a descriptor, in an empty environment; return its exit code and what it printed.

    Raises:
        OSError: the program did not start.
        RefusedError: a signal ended it.
    """
    reader, writer = os.pipe()
    printed, printing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(printing, 1)
            by(program, list(argv), {})
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        finally:
            os._exit(127)
    for end in (writer, printing):
        os.close(end)
    with os.fdopen(reader, "rb") as refusal, os.fdopen(printed, "rb") as output:
        number, text = refusal.read(), output.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number:
        raise OSError(int(number), os.strerror(int(number)))
    if code < 0:
        raise RefusedActError(signal.Signals(-code).name, "ended the program")
    return code, text.decode(errors="replace")
