"""End a session that runs, or one of its modules.

A module that was ended is started again when it is next called. With `--json`: `{"ended": {"session", "module"},
"said": [text…], "error"}`. Exit codes: 0; 1 there is no such session or module, or it gave no answer.
"""

from __future__ import annotations

import os
import sys

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import example
from paddock.cli.operating import running
from paddock.cli.terminal.render import Screen
from paddock.control.sessions import NoAnswerError, Seen, ask, seen
from paddock.control.status import Done, Request
from paddock.errors import KindError


@click.command(epilog=example("paddock end tool-bash"))
@click.argument("what", metavar="SESSION|MODULE", shell_complete=running.names)
@click.option("--session", metavar="ID", shell_complete=running.ids, help="The session of MODULE, where several run.")
@options.JSON
def end(what: str, session: str | None, as_json: bool) -> int:
    """End a session that runs, or a module of it, which is started again when it is next called."""

    def work() -> CommandAnswer:
        one, module = _meant(running.of_session(seen(os.environ)[0], session), what)
        try:
            done = ask(one.place, Request(do="end", module=module), Done)
        except (NoAnswerError, OSError) as error:
            raise KindError("NoAnswerError", f"the session {one.status.session} {error}") from error
        ended = {"session": one.status.session, "module": module}
        said = f"module {module}" if module is not None else f"session {one.status.session}"
        return CommandAnswer(
            {"ended": ended, "said": list(done.said)},
            lambda screen: screen.labelled([("ended  ", said)]),
            notes=done.said,
        )

    return CommandReport(Screen(sys.stderr), as_json, beside={"ended": None, "said": []}).answer(work, "it is ended")


def _meant(sessions: list[Seen], what: str) -> tuple[Seen, str | None]:
    """Return the session that is meant, and its module, if one is meant.

    Raises:
        KindError: none is meant, or several are.
    """
    having = [one for one in sessions if any(row.module == what for row in one.status.modules)]
    if len(having) == 1:
        return having[0], what
    if having:
        ids = ", ".join(one.status.session[: running.SHORT] for one in having)
        hints = [f"name one of {ids} with --session"]
        raise KindError("SeveralSessionsError", f"{len(having)} sessions have a module `{what:.200}`", hints=hints)
    try:
        return running.of_session(sessions, what)[0], None
    except KindError as error:
        raise error.with_hint(f"no running session has a module `{what:.200}`") from None
