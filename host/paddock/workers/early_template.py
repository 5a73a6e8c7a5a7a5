"""The interpreter that becomes a template, which is started before the first worker is wanted.

A command that starts modules spends most of its time on its own imports, and a session's start a part of it on plans
and policies. The template has imports of its own to do, and can do them meanwhile on another processor: it needs to
know nothing but its runtime for that, and gets the rest over its control socket. So this file imports little, and a
command calls `begun` first.

One early interpreter of a runtime can wait for each thread. The first template of that runtime in the thread takes it;
one that no template took ends with what began it. No other thread takes it, because the kernel ends it with the thread
that started it, and no process forked meanwhile, which would share it.
"""

from __future__ import annotations

import os
import socket
import threading
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
        self.key = _key(runtime)
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
    """Have the interpreter of the next template start now, unless one waits; at the end, end it if none took it."""
    early = None
    with suppress(OSError, ModuleNotFoundError):  # the launch itself reports the reason
        runtime = locate()
        if _waiting_for(runtime) is None:
            early = TemplateInterpreter(runtime)
            _waiting.append(early)
    try:
        yield
    finally:
        if early in _waiting:
            _waiting.remove(early)
            early.release()
            early.child.kill()
            early.child.wait()


def interpreter_for(runtime: WorkerRuntime) -> TemplateInterpreter:
    """Return an interpreter for a template: an early one of this runtime, or else a new one.

    Raises:
        OSError: it cannot be started.
    """
    early = _waiting_for(runtime)
    if early is None:
        return TemplateInterpreter(runtime)
    _waiting.remove(early)
    return early


def _waiting_for(runtime: WorkerRuntime) -> TemplateInterpreter | None:
    return next((early for early in _waiting if early.key == _key(runtime)), None)


def _key(runtime: WorkerRuntime) -> tuple[object, ...]:
    """Return what an interpreter and the template that takes it have in common."""
    return (os.getpid(), threading.get_ident(), runtime.interpreter, runtime.packages, runtime.preload)
