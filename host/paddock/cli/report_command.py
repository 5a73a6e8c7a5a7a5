"""Write what the modules of a session did into one page, or as an object for scripts.

With `--json`: `{"file", "report": {"session", "state", "plan", "working_dir", "accepted", "began", "ended", "notes",
"modules": […], "turns": […], "calls": […], "calls_left_out"}, "error"}`; what is null was not recorded. Exit codes: 0;
1 no such session or module is recorded, or the file cannot be written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import example
from paddock.cli.output_file import output_file
from paddock.cli.terminal.render import Screen
from paddock.isolation.record import LAST, SessionRecords
from paddock.report.facts import facts_of
from paddock.report.for_author import for_author
from paddock.report.page import page_of
from paddock.session.journals.journal_folder import SHORT_ID

_PRIVATE: Final = "the page is private: it has prompts, paths, hosts and names of secrets"
_FOR_AUTHOR: Final = "read the page before you pass it on; it lists first what it contains"


def _ids(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    return [one.id for one in SessionRecords().all() if one.id.startswith(typed)]


@click.command(epilog=example("paddock report last -o report.html"))
@click.argument("session", default=LAST, shell_complete=_ids)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="The new file to write.")
@click.option(
    "--for-author",
    "author_of",
    metavar="MODULE",
    help="Report on this module alone, for its author: without prompts, other modules, and the name of your home.",
)
@options.working_dir("The folder whose latest session is meant; by default the current one.")
@options.JSON
def report(session: str, output: Path | None, author_of: str | None, working_dir: Path | None, as_json: bool) -> int:
    """Write a page on what each module of SESSION was granted, used, was refused and took.

    SESSION is an id, the beginning of one, or `last`, the newest of this folder. The page is report-ID.html by default;
    with --json alone, no page is written.
    """
    folder = (working_dir or Path.cwd()).resolve()

    def work() -> CommandAnswer:
        record = SessionRecords().find(session, folder)
        facts = facts_of(record)
        if author_of is not None:
            facts = for_author(facts, author_of, record)
        if as_json and output is None:
            return CommandAnswer({"file": None, "report": facts.as_dict()})
        path = output or Path(f"report-{record.id[:SHORT_ID]}.html")
        with output_file(path) as write:
            write(page_of(facts, is_for_author=author_of is not None))
        return CommandAnswer(
            {"file": str(path), "report": facts.as_dict() if as_json else None},
            lambda screen: screen.labelled([("written  ", str(path))]),
            notes=[_PRIVATE if author_of is None else _FOR_AUTHOR, *facts.notes],
        )

    return CommandReport(Screen(sys.stderr), as_json, beside={"file": None, "report": None}).answer(
        work, "the page is written"
    )
