"""Serve one MCP server, sandboxed, to the client that started this command from its configuration.

stdout carries the protocol's messages and nothing else; what people are told goes to stderr, which clients keep as the
log of the server. Exit codes: 0 the client closed; 5 the server died; else that of what stood in the way of its start.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

import click

from paddock.cli import failure, plan_options
from paddock.cli.command_group import INTERRUPTED, Interrupted, example
from paddock.cli.mcp.server_options import server_options
from paddock.cli.options import SourceFlags
from paddock.cli.terminal.denial_notes import acts_and_options
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.json_output import plain
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen, ScreenDisplay
from paddock.errors import Denial, PaddockError, PlanError, PolicyRefusedError
from paddock.mcp_server.flagged_server import ServerModule, start_options
from paddock.mcp_server.one_server import served
from paddock.mcp_server.stdio import Streams, client_streams, serve
from paddock.plan.permissions import Permissions
from paddock.plan.server_flags import ServerFlags

_REFUSED: Final = 4


@click.command(epilog=example("paddock mcp run mcp+pypi:mcp-server-git --allow-read=."))
@server_options
def run(flags: ServerFlags, offline: bool) -> int:
    """Run an MCP server in a sandbox, for the client whose configuration has this command.

    The server is given what the options say once you accepted them: `paddock mcp accept`, with the same SOURCE, options
    and ARGS, for this folder. Otherwise it is given what needs no yes, and each failed call names the line that
    accepts the rest.
    """
    screen = Screen(sys.stderr)
    fetching = FetchProgress(screen)
    options = start_options(
        flags,
        os.environ,
        on_output=lambda name, line: screen.module_line(name, line.text, verbose=False),
    )
    request = ServerModule(flags, options, sources=SourceFlags(offline=offline).read(fetching))
    screen.hide_with(request.mask)

    async def work(streams: Streams) -> int:
        is_served = False
        try:
            async with served(
                request,
                partial(_explained, request),
                partial(plain, mask=request.mask),
                display=ScreenDisplay(screen),
            ) as server:
                if request.left_out:
                    screen.warning(_not_accepted(request))
                is_served = True
                await serve(server, streams)
                return server.exit_code
        except PaddockError as error:
            text = failure.text(_told(error, request))
            screen.text(text)
            if not (is_served or os.isatty(streams.incoming)):  # a client waits for an answer, and shows it
                await serve(None, streams, request.mask(text))
            return failure.exit_code(error)

    with client_streams() as streams, LogLines(screen), fetching:
        try:
            return asyncio.run(interruptible(partial(work, streams), screen))
        except (KeyboardInterrupt, Interrupted) as error:
            screen.ending(Interrupted.of(error).text)
            return INTERRUPTED


def _told(error: PaddockError, request: ServerModule) -> PaddockError:
    """Return why it does not start, with the line that accepts the flags where that is what it takes."""
    if isinstance(error, (PlanError, PolicyRefusedError)):
        plan_options.retell(error, "the server")
    if failure.exit_code(error) == _REFUSED and not request.is_accepted:
        error.hints = (f"a person accepts it: `{request.flags.line('accept')}`",)
    return error


def _not_accepted(request: ServerModule) -> str:
    without = shlex.join(request.left_out)
    line = request.flags.line("accept")
    return f"nobody accepted these options for this folder, so the server goes without {without}; to accept: {line}"


def _explained(request: ServerModule, denials: Sequence[Denial]) -> Sequence[str]:
    """Return what was refused during a call or a start that failed, and the line that allows it."""
    given = Permissions.model_validate(dict(request.flags.permissions))
    acts, options = acts_and_options((one.as_dict() for one in denials), given)
    lines = [f"Paddock refused: {act}" for act in acts]
    if options:
        line = request.flags.line("accept", *options)
        lines.append(
            f"To allow it, add {shlex.join(options)} where the client starts the server, and accept it: {line}"
        )
    elif request.left_out:
        lines.append(_not_accepted(request))
    return lines
