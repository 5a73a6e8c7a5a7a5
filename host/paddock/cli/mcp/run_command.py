"""Serve one MCP server, sandboxed, to the client that started this command from its configuration.

What people are told goes to stderr, which clients keep as the log of the server.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import click

from paddock.cli import failure, plan_options
from paddock.cli.command_group import example
from paddock.cli.mcp.server_options import server_options
from paddock.cli.mcp.serving import serve_client
from paddock.cli.options import SourceFlags
from paddock.cli.terminal.denial_notes import acts_and_options
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.json_output import plain
from paddock.cli.terminal.render import Screen, ScreenDisplay
from paddock.errors import Denial, PaddockError, PlanError, PolicyRefusedError
from paddock.mcp_server.flagged_server import FlaggedServer, served
from paddock.mcp_server.served import ServedTools
from paddock.plan.permissions import Permissions, redacted_permissions_line
from paddock.plan.server_flags import ServerFlags

_REFUSED: Final = 4
_SOUNDS_REFUSED: Final = re.compile(
    r"\bE(ACCES|AI_AGAIN|CONNREFUSED|NOTFOUND|PERM|ROFS)\b|permission denied|read-only file|"
    "fetch failed|connect|resol",  # parts of what most libraries say where a host is not reached
    re.IGNORECASE,
)


@click.command(epilog=example("paddock mcp run mcp+pypi:mcp-server-git --allow-read=."))
@server_options
def run(flags: ServerFlags, offline: bool) -> int:
    """Run an MCP server in a sandbox, for the client whose configuration has this command.

    The server is given what the options say once you accepted them: `paddock mcp accept`, with the same SOURCE, options
    and ARGS, for this folder. Until then it starts only without grants and variables; else each request is answered
    with the line that accepts it.
    """
    screen = Screen(sys.stderr)
    fetching = FetchProgress(screen)

    @asynccontextmanager
    async def started() -> AsyncIterator[ServedTools]:
        try:
            request = FlaggedServer(
                flags,
                os.environ,
                sources=SourceFlags(offline=offline).read(fetching),
                on_output=lambda name, line: screen.module_line(name, line.text, verbose=False),
            )
            screen.hide_with(request.mask)
            show = partial(plain, mask=request.mask)
            async with served(request, partial(_explained, flags), show, display=ScreenDisplay(screen)) as server:
                yield server
        except (PlanError, PolicyRefusedError) as error:
            plan_options.retell(error, "the server")
            raise _told(error, flags) from error
        except PaddockError as error:
            raise _told(error, flags) from error

    return serve_client(screen, fetching, started())


def _told(error: PaddockError, flags: ServerFlags) -> PaddockError:
    """Return why it does not start, with the line that accepts the flags where that is what it takes."""
    if failure.exit_code(error) == _REFUSED:
        error.hints = (f"a person accepts it: `{flags.line('accept')}`",)
    return error


def _explained(
    flags: ServerFlags,
    denials: Sequence[Denial],
    error: str,
) -> Sequence[str]:
    """Return what was refused during a call or a start that failed, and the line that allows it.

    What the kernel refused the server's program is not known: an error that sounds like that is told with the grants.
    """
    given = Permissions.model_validate(dict(flags.permissions))
    acts, options = acts_and_options((one.as_dict() for one in denials), given)
    lines = [f"Paddock refused: {act}" for act in acts]
    if options:
        line = flags.line("accept", *options)
        lines.append(
            f"To allow it, add {shlex.join(options)} where the client starts the server, and accept it: {line}"
        )
    elif not acts and _SOUNDS_REFUSED.search(error):
        had = redacted_permissions_line(given)
        lines.append(
            f"Paddock does not learn what a server's program is refused. This one has `{had}`. If it lacks more, add "
            f"--allow-net=HOST, --allow-read=PATH or --allow-write=PATH, and accept it: {flags.line('accept')}"
        )
    return lines
