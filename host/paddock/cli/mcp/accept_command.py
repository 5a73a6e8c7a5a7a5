"""Accept one MCP server with its flags, for one folder, so that a client may start it with `mcp run`.

`--json`: `{"source", "folder", "module", "run", "error"}`; `run` is the list of words that a client starts. Exit codes:
0; 1 the server cannot be had, nobody can be asked, or the answer cannot be recorded; 4 the answer is no, or a policy
refuses it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial

import click

from paddock.cli import options
from paddock.cli.answer import DONE, CommandAnswer, CommandReport
from paddock.cli.command_group import example
from paddock.cli.failure import masked
from paddock.cli.mcp.pinning import pin_definitions
from paddock.cli.mcp.server_options import server_options
from paddock.cli.options import SourceFlags
from paddock.cli.terminal.consent import ServerConsent
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.render import Screen
from paddock.mcp_server.flagged_server import accept as accept_server
from paddock.plan.server_flags import ServerFlags


@click.command(epilog=example("paddock mcp accept mcp+pypi:mcp-server-git --allow-read=. --yes"))
@server_options
@click.option("--yes", is_flag=True, help="Accept what is shown; without a terminal nobody can be asked.")
@options.JSON
def accept(flags: ServerFlags, offline: bool, yes: bool, as_json: bool) -> int:
    """Accept an MCP server with its flags, for this folder, and fetch and lock it.

    Shows what the server would get, and asks. `mcp run` with the same SOURCE, flags and ARGS then gives the server all
    of that, and needs no network. A server that ran before is started, and shows how its tools differ from their pins.
    """
    screen = Screen(sys.stderr, masked)
    fetching = FetchProgress(screen)
    dialogue = Dialogue.at(screen, sys.stdin)
    consent = ServerConsent(dialogue, flags.title, flags.notes, says_yes=yes)
    compare = partial(pin_definitions, screen=screen, dialogue=dialogue, says_yes=yes)

    def work() -> CommandAnswer:
        sources = SourceFlags(offline=offline).read(fetching)
        act = partial(accept_server, flags, os.environ, consent=consent, sources=sources, compare=compare)
        with fetching:
            accepted = asyncio.run(interruptible(act, screen, lambda: f"fetching {masked(flags.source)}"))
        module = accepted.entry.module
        facts = {
            "source": flags.source,
            "folder": str(flags.folder),
            "module": module,
            "run": flags.words("run"),
        }

        def show(answer: Screen) -> None:
            answer.title(f"accepted: {module} from {masked(accepted.resolution.source)}, in {flags.folder}")
            answer.title("it is started by")
            answer.command(flags.line("run"))

        return CommandAnswer(facts, show)

    return CommandReport(screen, as_json, masked).answer(work, DONE)
