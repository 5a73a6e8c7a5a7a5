"""The interpreter that becomes a template, which a command starts before it loads its own code.

A command that starts modules spends most of its time on its own imports. Its template has as many of its own to do, and
can do them meanwhile on another processor: it needs to know nothing but its runtime for that, and gets the rest over
its control socket. So this file imports little, and a command calls `begun` first.

One early interpreter can wait in a process. The first template of the same runtime takes it; one that no template took
ends with the command.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from paddock.workers.runtime import WorkerRuntime

_waiting: list[TemplateInterpreter] = []


class TemplateInterpreter:
    """An interpreter that imports the packages of `runtime`; the constructor returns before it has imported any.

    Raises:
        OSError: it cannot be started; nothing is left of it.
    """

    def __init__(self, runtime: WorkerRuntime) -> None:
        self.imports = (runtime.interpreter, runtime.packages, runtime.preload)
        self.stderr, stderr = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except BaseException:
            os.close(self.stderr)
            os.close(stderr)
            raise
        try:
            settings = {"control": theirs.fileno(), "preload": runtime.preload, "host": os.getpid()}
            self.child = runtime.spawn(settings, (theirs.fileno(),), stderr)
        except BaseException:
            self.release()
            raise
        finally:
            theirs.close()
            os.close(stderr)

    def release(self) -> None:
        """Close the control socket and stderr; the interpreter ends when its socket closes."""
        self.control.close()
        if self.stderr >= 0:
            os.close(self.stderr)
            self.stderr = -1


@contextmanager
def begun(locate: Callable[[], WorkerRuntime]) -> Iterator[None]:
    """Have the interpreter of the first template start now; at the end, end it if no template took it."""
    with suppress(OSError, ModuleNotFoundError):  # the launch itself reports the reason
        _waiting.append(TemplateInterpreter(locate()))
    try:
        yield
    finally:
        while _waiting:
            unused = _waiting.pop()
            unused.release()
            unused.child.kill()
            unused.child.wait()


def interpreter_for(runtime: WorkerRuntime) -> TemplateInterpreter:
    """Return an interpreter for a template: the early one if it is of this runtime, or else a new one.

    Raises:
        OSError: it cannot be started.
    """
    if _waiting and _waiting[0].imports == (runtime.interpreter, runtime.packages, runtime.preload):
        return _waiting.pop()
    return TemplateInterpreter(runtime)
