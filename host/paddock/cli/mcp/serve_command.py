"""Serve the tools of a plan to an MCP client, over stdin and stdout.

The client starts the command and closes its stdin to end it. A session that cannot be opened is reported on stderr and,
as people often see only that, as the error of every request of the client.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from paddock.cli import failure
from paddock.cli.bundle_plan import as_named, plan_of
from paddock.cli.command_group import INTERRUPTED, Interrupted, example
from paddock.cli.options import QUIET, WORKING_DIR, JournalFlags, SessionOptions, check_verbosity, plan_options
from paddock.cli.session_on_screen import SessionOpener
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.json_output import plain
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError, render
from paddock.mcp_server.client_approval import ClientApproval
from paddock.mcp_server.plan_tools import ServedPlan
from paddock.mcp_server.stdio import Streams, client_streams
from paddock.mcp_server.stdio import serve as serve_client
from paddock.plan import USUAL_PLAN


@click.command(epilog=example("paddock mcp serve plan.yaml"))
@click.argument("plan", default=USUAL_PLAN)
@WORKING_DIR
@plan_options
@QUIET
@click.option("-v", "--verbose", is_flag=True, help="Show every module with its grants, and all that modules print.")
def serve(plan: str, options: SessionOptions, quiet: bool, verbose: bool) -> int:
    """Serve the tools of PLAN to an MCP client, over stdin and stdout.

    A client starts this command itself: put it into the client's configuration. Hooks of the plan judge each call, and
    their questions go to the person at the client.
    """
    check_verbosity(quiet=quiet, verbose=verbose)
    screen = Screen(sys.stderr, is_quiet=quiet)
    path = plan_of(plan)
    opener = SessionOpener(path, replace(options, kept=JournalFlags(no_journal=True)), screen, is_verbose=verbose)
    with client_streams() as streams, LogLines(screen, verbose=verbose), opener.fetching:
        try:
            return asyncio.run(interruptible(partial(_serve, path, opener, screen, streams), screen))
        except (KeyboardInterrupt, Interrupted) as error:
            screen.ending(Interrupted.of(error).text)
            return INTERRUPTED
        except Exception as error:  # the top of a command: an unforeseen error is reported here
            screen.text(failure.text(error))
            return failure.exit_code(error)


async def _serve(plan: Path, opener: SessionOpener, screen: Screen, streams: Streams) -> int:
    """Open the session and serve it, or say why not until the client leaves; return the exit code."""
    approval = ClientApproval()
    async with AsyncExitStack() as stack:
        try:
            await opener.ready()
            session = opener.session(approval, TerminalConsent(Dialogue.at(screen, sys.stdin), plan))
            approval.mask = session.mask
            await stack.enter_async_context(session)
        except PaddockError as error:
            failure.name_plan(error, plan)
            text = failure.text(error)
            screen.text(text)
            if not os.isatty(streams.incoming):  # a client waits for an answer, and shows it
                await serve_client(None, streams, screen.mask(text))
            return failure.exit_code(error)
        served = ServedPlan(session.coordinator.session, approval, partial(plain, mask=session.mask))
        for module in session.modules:
            if module.problem is not None:
                screen.text(render(module.problem))
        count = len(served.tools())
        screen.note(f"serving {count} {'tool' if count == 1 else 'tools'} of {as_named(str(plan))}")
        await serve_client(served, streams)
    return 0
