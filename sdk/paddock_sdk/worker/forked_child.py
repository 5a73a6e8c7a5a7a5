"""Keep the connection with the process that opened it: a child that module code forks has no part in it.

In such a child every call of the host raises `ModuleGoneError`. Where the module's code returns or raises into the
runtime, the child would go on as its parent's double: it says so on stderr and ends with status 1.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import NoReturn

from paddock_sdk.worker.driver import Driver

_log = logging.getLogger(__name__)


def part(driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
    """Part the calling process, a new child, from the connection of `driver`, which its parent serves on `loop`."""
    driver.part(_end)
    loop.call_soon_threadsafe = _end  # type: ignore[method-assign]  # where the work of a thread is done
    loop.call_soon(_end)  # the loop polls descriptors that it shares with the parent's, but runs this first


def _end(*_: object, **__: object) -> NoReturn:
    try:
        _log.error(
            "process %d, which this module forked, came back from the module's code and ends: only its parent answers "
            "the host; end a child with os._exit(), or start it with subprocess or multiprocessing",
            os.getpid(),
            exc_info=sys.exception(),
        )
        sys.stdout.flush()
    finally:
        os._exit(1)
