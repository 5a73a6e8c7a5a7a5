"""Serve the tools of a plan to the MCP client that started this command.

Repositories bring files of clients, so such a file accepts no plan, grants nothing beside it and chooses no weaker
isolation. Nor does it choose the folder of another project: the plan works where it lies.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import click

from paddock.cli import failure
from paddock.cli.bundle_plan import as_named, plan_of
from paddock.cli.command_group import example
from paddock.cli.mcp.serving import serve_client
from paddock.cli.options import (
    QUIET,
    WORKING_DIR,
    JournalFlags,
    SessionOptions,
    SourceFlags,
    check_verbosity,
    source_options,
)
from paddock.cli.session_on_screen import SessionOpener
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.json_output import plain
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError, PaddockError, render
from paddock.mcp_server.client_approval import ClientApproval
from paddock.mcp_server.served import ServedTools
from paddock.plan import USUAL_PLAN


@click.command(epilog=example("paddock mcp serve plan.yaml"))
@click.argument("plan", default=USUAL_PLAN)
@WORKING_DIR
@source_options
@QUIET
@click.option("-v", "--verbose", is_flag=True, help="Show every module with its grants, and all that modules print.")
def serve(
    plan: str,
    working_dir: Path | None,
    sources: SourceFlags,
    quiet: bool,
    verbose: bool,
) -> int:
    """Serve the tools of PLAN to an MCP client, over stdin and stdout.

    A client starts this command itself: put it into the client's configuration. Hooks of the plan judge each call, and
    their questions go to the person at the client. What the plan needs a yes for, `paddock run PLAN` asks about first.
    """
    check_verbosity(quiet=quiet, verbose=verbose)
    screen = Screen(sys.stderr, is_quiet=quiet)
    path = plan_of(plan)
    options = SessionOptions(working_dir, sources=sources, kept=JournalFlags(no_journal=True))
    opener = SessionOpener(path, options, screen, is_verbose=verbose)
    folder = (working_dir or Path.cwd()).resolve()

    @asynccontextmanager
    async def started() -> AsyncIterator[ServedTools]:
        approval = ClientApproval()
        try:
            if not folder.is_relative_to(path.resolve().parent):
                said = f"a client's file may not have `{path}` work in another folder, `{folder}`"
                hints = ["serve a plan in that folder, which may `extends` this one"]
                raise KindError("FolderOfPlanError", said, exit_code=4, hints=hints)
            await opener.ready()
            session = opener.session(approval, TerminalConsent(Dialogue.at(screen, sys.stdin), path))
            approval.mask = session.mask
            async with session:
                kernel = session.coordinator.session
                served = ServedTools(kernel.runtime, approval, partial(plain, mask=session.mask))
                for module in session.modules:
                    if module.problem is not None:
                        screen.text(render(module.problem))
                count = len(served.tools())
                screen.note(f"serving {count} {'tool' if count == 1 else 'tools'} of {as_named(str(path))}")
                yield served
        except PaddockError as error:
            failure.name_plan(error, path)
            raise

    return serve_client(screen, opener.fetching, started(), verbose=verbose)
