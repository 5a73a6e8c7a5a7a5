"""Refuse to run where there is no event loop of asyncio, such as in an application of Trio's."""

from __future__ import annotations

import asyncio

from paddock.errors import KindError


def check_event_loop() -> None:
    """Refuse any event loop but asyncio's.

    Raises:
        KindError: the application runs on another one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise KindError(
            "EventLoopError",
            "a session needs the event loop of asyncio, and this application runs on another one, such as Trio's",
            hints=[
                "run it with `asyncio.run(main())` or `anyio.run(main)`",
                "or give the session a thread of its own: `await trio.to_thread.run_sync(asyncio.run, main())`",
            ],
        ) from None
