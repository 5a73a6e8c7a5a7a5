"""Answer `paddock why --unused`: which grants of a session's modules were not seen used, as lines of a plan.

Nothing is written, and a line has only what is granted. With `--json`: `{"session", "modules": [{"module", "place",
"unused", "unseen"}…], "error"}`; `unused` is null where the use was not recorded, `unseen` has the families of which
too little is known.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.terminal.render import Screen
from paddock.isolation.record import LAST, SessionRecords
from paddock.report.facts import ModuleFacts, facts_of

_WORTH: Final = "what was not seen used may be needed at another time: take a grant out, and run what matters"


def run_unused_answer(module: str | None, session: str | None, place: Path, *, as_json: bool) -> int:
    """Print the answer about one module of a session, or about all, and return the exit code."""

    def work() -> CommandAnswer:
        facts = facts_of(SessionRecords().find(session or LAST, place))
        modules = facts.modules if module is None else (facts.module(module),)
        rows = [(one.name, text) for one in modules for text in _texts(one)]
        return CommandAnswer(
            {
                "session": facts.session,
                "modules": [
                    {"module": one.name, "place": one.place, "unused": one.unused, "unseen": list(one.unseen)}
                    for one in modules
                ],
            },
            lambda screen: screen.listing(rows),
            notes=[_WORTH, *facts.notes],
        )

    return CommandReport(Screen(sys.stderr), as_json, beside={"session": None, "modules": []}).answer(work)


def _texts(module: ModuleFacts) -> Iterator[str]:
    if module.unused is None:
        yield "its use is not recorded"
        return
    if module.unused:
        yield module.unused
    elif module.grants and len(module.unseen) == 0:
        yield "each grant of which the use is seen was used"
    if module.unseen:
        yield f"too little is known of the use of: {', '.join(module.unseen)}"
