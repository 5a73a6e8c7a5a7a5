"""Let Ctrl-C call a function instead of ending the command, while something runs that can be stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_interrupt(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` on the running loop for each SIGINT; the handler from before is restored afterwards."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
