"""What a process of ours sets before it does anything: signals, environment, umask, output.

A file of its own, since the mount guard is quick to start only if it loads nothing of a worker.
"""

from __future__ import annotations

import os
import signal
import sys


def prepare_process() -> None:
    """Turn a fresh interpreter into the start of every worker; done once before all forks."""
    # The signal handling of a freshly started Python, regardless of the inherited one.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # The C library has read its variables; a worker's environment is only its request's.
    os.environ.clear()
    os.umask(0o077)
    # A pipe is block-buffered by default; a person following the log wants each line when it is printed.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    # Compiled files would be written beside sources that are shared, verified or a user's working copy.
    sys.dont_write_bytecode = True
