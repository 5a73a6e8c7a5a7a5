"""Serve the client that started this command, over stdin and stdout, which carry the protocol's messages alone.

The client closes its end to end it. What cannot be started is reported on stderr and, as people often see only that, as
the error of every request of the client. Exit codes: 0 the client closed; 5 the modules died too often; else that of
what stood in the way of the start.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial

from paddock.cli import failure
from paddock.cli.answer import CommandReport
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.mcp_server.served import ServedTools
from paddock.mcp_server.stdio import Streams, client_streams, serve


def serve_client(
    screen: Screen,
    fetching: FetchProgress,
    start: AbstractAsyncContextManager[ServedTools],
    *,
    verbose: bool = False,
) -> int:
    """Serve what is there once `start` is entered, or say why not until the client leaves; return the exit code."""
    with client_streams() as streams, LogLines(screen, verbose=verbose), fetching:
        serving = interruptible(partial(_serve, screen, start, streams), screen)
        return CommandReport(screen, False).attempt(lambda: asyncio.run(serving))


async def _serve(
    screen: Screen,
    start: AbstractAsyncContextManager[ServedTools],
    streams: Streams,
) -> int:
    async with AsyncExitStack() as stack:
        try:
            served = await stack.enter_async_context(start)
        except PaddockError as error:
            text = failure.text(error)
            screen.text(text)
            if not os.isatty(streams.incoming):  # a client waits for an answer, and shows it
                await serve(screen.mask(text), streams)
            return failure.exit_code(error)
        if os.isatty(streams.incoming):
            screen.note("it waits for a client's messages on stdin: put this command into the client's file")
        await serve(served, streams, mask=screen.mask)
    return 0
