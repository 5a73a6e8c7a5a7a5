"""Show what the modules of running sessions printed: the last 64 KiB of each, of its present or latest process.

stdout receives the lines, each behind the name of its module; what was lost, and which session ended, is on stderr.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Final

import click

from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import example
from paddock.cli.operating import running
from paddock.cli.terminal.render import Screen
from paddock.control.sessions import NoAnswerError, Seen, ask, seen
from paddock.control.status import LogLines, Request
from paddock.errors import KindError

_PAUSE: Final = 0.3  # seconds between two looks


@click.command(epilog=example("paddock logs -f tool-bash"))
@click.argument("module", required=False, shell_complete=running.names)
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines, until the sessions end.")
@click.option("--session", metavar="ID", shell_complete=running.ids, help="Only of this session.")
def logs(module: str | None, follow: bool, session: str | None) -> int:
    """Show what the modules of running sessions printed, or only MODULE."""
    notes = Screen(sys.stderr)

    def work() -> CommandAnswer:
        sessions = running.of_session(seen(os.environ)[0], session)
        if module is not None:
            sessions = [one for one in sessions if any(row.module == module for row in one.status.modules)]
        if not sessions:
            problem = running.NOTHING_RUNS if module is None else f"no running session has a module `{module:.200}`"
            raise KindError("UnknownModuleError", problem, hints=["`paddock ps` shows what runs"])
        following = [_Following(one, module, len(sessions) > 1) for one in sessions]
        screen = Screen(sys.stdout)
        while following:
            following = [one for one in following if one.show(screen, notes)]
            if not follow:
                break
            time.sleep(_PAUSE)
        return CommandAnswer({})

    return CommandReport(notes, False).answer(work)


class _Following:
    """What one session's modules printed since the last look."""

    def __init__(self, session: Seen, module: str | None, names_session: bool) -> None:
        self._session = session
        self._module = module
        self._before = f"{session.status.session[: running.SHORT]} " if names_session else ""
        self._since: dict[str, int] = {}

    def show(self, screen: Screen, notes: Screen) -> bool:
        """Write what is new; return whether the session still runs."""
        try:
            answer = ask(self._session.place, Request(get="logs", module=self._module, since=self._since), LogLines)
        except (NoAnswerError, OSError):
            notes.note(f"session {self._session.status.session} has ended")
            return False
        for name, lost in answer.dropped.items():
            if name in self._since or lost:
                notes.note(f"{name}: {lost} earlier bytes are not kept")
        for line in answer.lines:
            screen.module_line(f"{self._before}{line.module}", line.text, verbose=True)
        self._since = answer.positions
        return True
