"""Pin the definitions of the tools of a plan's MCP servers, after a person saw what is new or changed.

`--json`: `{"plan", "tools": [{"module", "tool", "state", "lines"}…], "is_pinned", "error"}`; a `state` is `same`,
`new`, `changed` or `gone`, and a null `tool` stands for the instructions of a server. Exit codes: 0 all is pinned as it
is; 1 it is not, as nobody could be asked or the answer is no; else that of the error.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.bundle_plan import plan_of
from paddock.cli.command_group import example
from paddock.cli.mcp.pinning import pin_definitions
from paddock.cli.options import JournalFlags, SessionOptions
from paddock.cli.session_on_screen import SessionOpener
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.module_sources.sourced_modules import NO_SUCH_MODULE
from paddock.plan import USUAL_PLAN
from paddock.session.session import offered_definitions


@click.command(epilog=example("paddock mcp pin plan.yaml tool-mcp-files"))
@click.argument("plan", default=USUAL_PLAN)
@click.argument("module", required=False)
@options.WORKING_DIR
@click.option("--trust-plan", is_flag=True, help="Accept everything that the plan asks for, for this run only.")
@click.option("--yes", is_flag=True, help="Pin what is listed; without a terminal nobody can be asked.")
@options.JSON
def pin(
    plan: str,
    module: str | None,
    working_dir: Path | None,
    trust_plan: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Show how the tools of a plan's MCP servers differ from their pins, and pin them.

    Starts the MCP servers of PLAN, or only MODULE, in their sandboxes; no turn is run. Of each tool that is new or
    changed it lists what differs, and asks. Only pinned tools can be called, and only these does a model see.
    """
    screen = Screen(sys.stderr)
    dialogue = Dialogue.at(screen, sys.stdin)
    kept = JournalFlags(no_journal=True)
    path = plan_of(plan)
    opener = SessionOpener(path, SessionOptions(working_dir, None, trust_plan, kept=kept), screen, is_verbose=False)

    async def pinned() -> CommandAnswer:
        await opener.ready()
        session = opener.session(TerminalApproval(dialogue), TerminalConsent(dialogue, path))
        meant = {one.source for one in session.plan.entries() if module in (None, one.module, one.instance_id)}
        definitions, lock = await offered_definitions(session, lambda entry: entry.source in meant)
        if lock is None or not definitions.all:
            problem = f"{plan} has no MCP server" + ("" if module is None else f" `{module}`")
            raise KindError(NO_SUCH_MODULE, problem, hints=["the `source` of one begins with `mcp+`"])
        changes, is_pinned = await pin_definitions(definitions, lock, screen, dialogue, says_yes=yes)
        facts = {"plan": str(path), "tools": [one.as_dict() for one in changes], "is_pinned": is_pinned}
        said = f"{len(changes)} pinned in {lock.path.name}" if is_pinned else "nothing is pinned"
        return CommandAnswer(facts, lambda answer: answer.note(said), 0 if is_pinned else 1)

    with LogLines(screen), opener.fetching:
        report = CommandReport(screen, as_json, screen.mask)
        return report.answer(lambda: asyncio.run(interruptible(pinned, screen, on_stop=dialogue.end)))
