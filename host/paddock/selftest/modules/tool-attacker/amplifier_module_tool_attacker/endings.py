"""Attacks on the end: processes that do not end, and processes that live on afterwards.

Every survivor holds a lock on a file, which the kernel releases with the last process that holds it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator

from .way import Way, in_one_way


def leave_a_daemon_and_end_its_keeper(lock: str, with_keeper: bool) -> Iterator[Way]:
    """Leave a process behind, and stop and kill its keeper, if permitted: the module's own parent."""
    yield from leave_a_daemon(lock=lock)
    if with_keeper:
        yield "stop the parent", lambda: _end_parent(signal.SIGSTOP)
        yield "kill the parent", lambda: _end_parent(signal.SIGKILL)


class _Lingering:
    def __del__(self) -> None:
        _linger()


_lingering = []


@in_one_way("in every way")
def refuse_to_end(lock: str) -> str:
    """Block every gentle end at once."""
    _hold(lock)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    atexit.register(_linger)
    threading.Thread(target=_linger).start()  # no daemon: an interpreter waits for it
    _lingering.append(_Lingering())
    return "ignores signals, and hangs in a thread, at exit and in __del__"


@in_one_way("fork twice")
def leave_a_daemon(lock: str) -> str:
    """Leave an orphaned process behind: forked twice, in a session of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            _hold(lock)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.write(writer, b"%d" % os.getpid())
            os.closerange(0, 3)
            os.close(writer)
            _linger()
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        daemon = pipe.read()
    if not daemon:
        raise RuntimeError("the daemon did not come up")
    return f"daemon {int(daemon)}"


def _end_parent(number: signal.Signals) -> str:
    os.kill(os.getppid(), number)
    return f"{number.name} was sent to {os.getppid()}"


def _hold(lock: str) -> None:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _linger() -> None:
    while True:
        time.sleep(60)
