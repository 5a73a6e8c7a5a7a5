"""Attack the isolation of this machine for real, and show the result of each attack, for people or for scripts.

Exit codes: 0 every attack that could be made was contained; 3 one was not; otherwise the code of the error that makes a
requested level, or every level, unavailable.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import click

from paddock.cli import failure, options
from paddock.cli.command_group import example
from paddock.cli.one_result import result_of
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.render import Screen
from paddock.selftest import CATALOGUE, LEVELS, AttackRunner, AttackTrial, Result, Verdict
from paddock.text import escape
from paddock_sandbox.profile import IsolationLevel
from paddock_sources.similar_names import meant

_FAILED: Final = 3  # isolation is Paddock's own, so a successful attack is an internal error
_UNREACHABLE: Final = 1
_MAX_SHOWN: Final = 160  # characters; the JSON has the whole text
_LEAKS: Final = f"{Verdict.LEAKS} (known limits of the level, as said above)"


@click.command(epilog=example("paddock selftest read_ssh_key --isolation ns"))
@click.argument("attacks", nargs=-1, metavar="[ATTACK]...")
@click.option(
    "--isolation",
    "levels",
    type=click.Choice(options.ISOLATING),
    multiple=True,
    help="Attack this isolation level; can be repeated. By default all levels that work here.",
)
@options.JSON
def selftest(attacks: tuple[str, ...], levels: tuple[IsolationLevel, ...], as_json: bool) -> int:
    """Attack the sandbox on this machine, and show the result of each attack.

    By default all attacks run, which takes some minutes. The table of results shows their names; for an unknown name,
    the error lists them.
    """
    known = {attack.name: attack for attack in CATALOGUE}
    for name in attacks:
        if name not in known:
            instead = meant(name, known, f"there are: {', '.join(known)}")
            raise click.UsageError(f"there is no attack `{name}`; {instead}")
    chosen = tuple(known[name] for name in dict.fromkeys(attacks)) or CATALOGUE
    screen = Screen(sys.stderr)
    if chosen is CATALOGUE and not as_json:
        screen.note(
            f"{len(chosen)} attacks at each level take some minutes; `paddock selftest {chosen[0].name}` makes one"
        )
    doing = ["preparing"]
    runner = AttackRunner(
        tuple(dict.fromkeys(levels)) or LEVELS, chosen, report=lambda what: doing.__setitem__(0, what)
    )
    # Warnings are left out: misbehaving modules are the subject, and the table shows the outcome.
    result = result_of(runner.run, screen, lambda: doing[0], as_json=as_json, level=logging.ERROR)
    if isinstance(result, int):
        return result
    missing = tuple(result.unreachable.values()) if levels or not result.levels else ()
    if as_json:
        print_json(_as_dict(result, is_fine=not (result.problems or missing)))
    else:
        _show(result, Screen(sys.stdout))
    for problem in result.problems:
        screen.text(f"error: {problem}")
    for why in missing:
        screen.text(failure.text(why))
    if result.problems:
        return _FAILED
    return missing[0].exit_code if missing else 0


def _as_dict(result: Result, *, is_fine: bool) -> dict[str, object]:
    return {
        "ok": is_fine,
        "user": os.geteuid(),
        "levels": list(result.levels),
        "unreachable": {level: failure.as_dict(error) for level, error in result.unreachable.items()},
        "attacks": [trial.as_dict() for trial in result.trials],
        "problems": list(result.problems),
    }


def _show(result: Result, screen: Screen) -> None:
    for trial in result.trials:
        # In a narrow column the name, which people copy, would be broken.
        screen.title(f"{trial.attack.name}: {trial.attack.tries}")
        screen.labelled([*_rows(trial, result.levels)])
    for level, error in result.unreachable.items():
        why = "; ".join(found.describe() for found in error.failures.values()) or error.summary
        screen.text(f"level {level} is unavailable here: {escape(why)}")
    counted = Counter(outcome.verdict for trial in result.trials for outcome in trial.outcomes.values())
    counts = [
        f"{counted[verdict]} {_LEAKS if verdict is Verdict.LEAKS else verdict}"
        for verdict in Verdict
        if counted[verdict]
    ]
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    screen.text(f"{len(result.trials)} attacks as {who}: {', '.join(counts) or 'none could be tried'}")


def _rows(trial: AttackTrial, levels: Sequence[IsolationLevel]) -> Iterator[tuple[str, str]]:
    yield "  outside  ", "works" if trial.control.proves_something else "not possible here"
    for level in levels:
        outcome = trial.outcomes.get(level)
        text = "-" if outcome is None else f"{outcome.verdict.value}: {outcome.by}"
        yield f"  {level}  ", text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
