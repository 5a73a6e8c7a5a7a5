"""Run the demonstration from the command line and show its results, as a table or as an object for scripts."""

from __future__ import annotations

import logging
import sys

import click

from paddock.cli import options
from paddock.cli.command_group import example
from paddock.cli.one_result import result_of
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.progress import activity_of
from paddock.cli.terminal.render import Screen
from paddock.demo import Demonstration, DemoOutcome

_FAILED = 3  # the demonstration is Paddock's own, so a missing result is an internal error


@click.command(epilog=example("paddock demo"))
@options.JSON
def demo(as_json: bool) -> int:
    """Run twelve modules, six of which misbehave, and show what stopped each."""
    screen = Screen(sys.stderr)
    demonstration = Demonstration()

    def activity() -> str:
        return "preparing" if demonstration.session is None else activity_of(demonstration.session)

    # Warnings are left out: misbehaving modules are the subject, and the table shows the outcome.
    outcome = result_of(demonstration.run, screen, activity, as_json=as_json, level=logging.ERROR)
    if isinstance(outcome, int):
        return outcome
    for line in outcome.weaker:
        screen.warning(line)
    if as_json:
        print_json(outcome.as_dict())
    else:
        _show(outcome, Screen(sys.stdout))
    for problem in outcome.problems:
        screen.text(f"error: {problem}")
    return _FAILED if outcome.problems else 0


def _show(outcome: DemoOutcome, screen: Screen) -> None:
    rows = [(part.status.module, part.status.kind, part.did, part.contained) for part in outcome.parts]
    screen.table(("module", "kind", "what it did", "how it was contained"), rows)
    screen.quote("summary.md", outcome.summary.rstrip())
    screen.text(f"answer: {outcome.answer}")
    levels = ", ".join(sorted({part.status.level for part in outcome.parts}))
    verdict = "something is not as it should be" if outcome.problems else "the total is right"
    screen.text(f"{len(rows)} modules, isolation: {levels}; {outcome.seconds:.1f} s; {verdict}")
