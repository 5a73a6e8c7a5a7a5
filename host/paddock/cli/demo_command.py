"""Run the demonstration from the command line and show what it showed, as a table or as an object for scripts."""

from __future__ import annotations

import asyncio
import logging
import sys

import anyio

from paddock.demo import Demonstration, Outcome

from . import INTERRUPTED, failure
from .interruption import Interruption
from .json_output import print_json
from .log_lines import LogLines
from .progress import Progress, activity_of
from .render import Screen

_FAILED = 3  # the demonstration is ours: whatever it did not show is a defect


def run_demo(*, as_json: bool) -> int:
    """Run the demonstration and return the exit code: 0 when everything was as it should be."""
    screen = Screen(sys.stderr)
    # Warnings are left out: that modules misbehave is the subject, and the table says how it ended.
    with LogLines(screen, level=logging.ERROR):
        try:
            outcome = asyncio.run(_run(screen))
        except KeyboardInterrupt:
            outcome = None
        except SystemExit:
            raise
        except BaseException as error:  # the top of a command: what nobody foresaw is told as what it is
            screen.text(failure.text(error))
            if as_json:
                print_json({"ok": False, "error": failure.as_dict(error)})
            return failure.exit_code(error)
    if outcome is None:
        if as_json:
            print_json({"ok": False, "error": failure.INTERRUPTION})
        return INTERRUPTED
    for line in outcome.weaker:
        screen.warning(line)
    if as_json:
        print_json(outcome.as_dict())
    else:
        _show(outcome, Screen(sys.stdout))
    for problem in outcome.problems:
        screen.text(f"error: {problem}")
    return _FAILED if outcome.problems else 0


async def _run(screen: Screen) -> Outcome | None:
    """Return the outcome, None when the demonstration was interrupted."""
    demonstration = Demonstration()

    def activity() -> str:
        return "preparing" if demonstration.session is None else activity_of(demonstration.session)

    with (
        anyio.CancelScope() as scope,
        Interruption(screen.note, lambda: False, lambda: scope.cancel()),
        Progress(screen, activity),
    ):
        return await demonstration.run()
    return None


def _show(outcome: Outcome, screen: Screen) -> None:
    rows = [(part.status.module, part.status.kind, part.did, part.contained) for part in outcome.parts]
    screen.table(("module", "kind", "what it did", "how it was contained"), rows)
    screen.quote("summary.md", outcome.summary.rstrip())
    screen.text(f"answer: {outcome.answer}")
    levels = ", ".join(sorted({part.status.level for part in outcome.parts}))
    verdict = "something is not as it should be" if outcome.problems else "the total is right"
    screen.text(f"{len(rows)} modules, isolation: {levels}; {outcome.seconds:.1f} s; {verdict}")
